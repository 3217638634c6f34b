"""Start and find the background jobs of Lossless: audits, head examinations, engine comparisons."""

from __future__ import annotations

from specviz.record.pairs import PairSpec
from specviz.record.server_run import ServerInfo
from specviz.record.trace import RunConfig
from specviz.servers.acceptance import PROMPTS, MeasuringPlan, measuring_plan
from specviz.servers.parity_job import ParityJob
from specviz.tune.audit import Audit
from specviz.tune.audit_job import AUDIT, AuditJob
from specviz.tune.doctor import Doctor
from specviz.tune.doctor_job import DoctorJob
from specviz.ui.session.background_jobs import (
    jobs_going,
    run_maker,
    the_job_queue,
    visible_jobs,
)


def start_audit(spec: PairSpec, config: RunConfig, *, runs: int, broken: str | None) -> None:
    audit = Audit(config=config, runs=runs, broken=broken)
    the_job_queue().start(AuditJob(audit, spec, run_maker()))


def audits_of(spec: PairSpec, config: RunConfig) -> list[AuditJob]:
    """Return the pair's audits with the drafter and chat setting of ``config``, oldest first.

    An unfinished audit of the pair is always included, whatever its drafter and chat setting.
    """
    audits = (each for each in visible_jobs() if isinstance(each, AuditJob))
    like = config.drafter, config.chat
    return [
        each
        for each in audits
        if each.spec == spec
        and (each.going or (each.audit.config.drafter, each.audit.config.chat) == like)
    ]


def start_doctor(spec: PairSpec, config: RunConfig) -> None:
    the_job_queue().start(DoctorJob(Doctor(config=config), spec, run_maker()))


def doctor_of(spec: PairSpec) -> DoctorJob | None:
    """Return the newest job that examines how specviz runs this pair's head."""
    jobs = (each for each in visible_jobs() if isinstance(each, DoctorJob))
    return next((each for each in reversed(list(jobs)) if each.spec == spec), None)


def parity_plan(config: RunConfig) -> MeasuringPlan:
    return measuring_plan(config, PROMPTS)


def start_parity(spec: PairSpec, config: RunConfig, info: ServerInfo, *, granted: bool) -> None:
    plan = parity_plan(config)
    the_job_queue().start(ParityJob(info, plan, config, spec, run_maker(), allow_remote=granted))


def parity_of(spec: PairSpec) -> ParityJob | None:
    """Return the newest job that compares an engine's acceptance with specviz's for this pair."""
    jobs = (each for each in visible_jobs() if isinstance(each, ParityJob))
    return next((each for each in reversed(list(jobs)) if each.spec == spec), None)


def is_auditing() -> bool:
    """Return whether an audit of any pair is running or queued."""
    return any(each.name == AUDIT for each in jobs_going())
