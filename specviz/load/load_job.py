"""The background job of a load test."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

from specviz.errors import ServerError
from specviz.figures.load_figures import log_speedups
from specviz.load.generator import LoadGenerator
from specviz.load.live import LoadNow
from specviz.load.order import LoadOrder, Stage, lanes_of, levels_of, stages_of, unit_of
from specviz.load.planning import check_budget, pilot_units, units_planned
from specviz.load.prompts import PromptDealer
from specviz.load.restarting import EngineStarter, key_of
from specviz.load.stored import save_sweep
from specviz.measure.background_job import Job
from specviz.record.load_run import EngineGauges, LoadBlock, LoadLane, LoadSettings, LoadSweep
from specviz.record.server_run import Counters, ServerSettings
from specviz.servers.address import is_local
from specviz.servers.asking import Answer, ask
from specviz.servers.connection import Limits
from specviz.servers.counters import read_counters, went_back
from specviz.servers.engines import engine_of
from specviz.servers.gauges import GaugeReader

LOAD_JOB = "load"  # the job's name in the job queue
RETURNS_WITHIN = 60.0  # seconds in which an engine that went away may come back
_COUNTED_WITHIN = 3.0  # seconds after a block until the engine's counters must be complete
_EVERY = 0.1

_WARM_UP = 8  # tokens of a lane's first answer, which no block contains
_UNTIL_COUNTED = 0.3  # seconds until an engine's counters contain it

__all__ = ["LOAD_JOB", "LoadJob", "LoadOrder"]


class _AllSentError(Exception):
    """Raised when the sweep has sent its maximum number of requests."""


class LoadJob(Job):
    """A job that measures a load test block by block and adds each block to ``sweep``.

    A lane is a server with its settings. A block is one lane under one level of load. ``now`` is
    the block in progress, or None between blocks. ``sweep`` is stored after every pass over the
    levels. At each level, a pass measures all lanes, then all lanes in reverse order (A B B A).
    """

    def __init__(
        self, order: LoadOrder, *, keep: bool = True, returns_within: float = RETURNS_WITHIN
    ) -> None:
        super().__init__(name=LOAD_JOB, label=f"Load on {order.servers[0].model}")
        check_budget(order)
        self.order = order
        self._keep = keep
        self._starter = self._begin(
            EngineStarter(allow_remote=order.allow_remote)
            if order.restart_command
            else EngineStarter(allow_remote=order.allow_remote, within=returns_within)
        )
        self._sweep = _new_sweep(order)
        self._units = pilot_units(order)
        self._failed = dict[int, float]()  # by lane: the lowest level at which all requests failed
        self._generator: LoadGenerator | None = None
        self._current: tuple[int, float] | None = None  # lane and level
        self._sent = self._start = 0
        self._unit_seconds, self._restart_seconds = list[float](), list[float]()
        self._began = time.monotonic()

    @property
    def sweep(self) -> LoadSweep:
        return self._sweep

    @property
    def progress(self) -> tuple[int, int]:
        """Return the number of finished measurements (blocks), and the number of planned ones."""
        order = self.order
        stages = stages_of(order, self._sweep.lanes)
        each = sum(len(unit_of(stage)) for stage in stages) * len(order.settings.levels)
        done = len(self._sweep.blocks)
        return done, max(done, each * self._units * self._repetitions)

    @property
    def seconds_left(self) -> float | None:
        """Return the estimated seconds left; None before the first block has finished."""
        done, planned = self.progress
        if not done:
            return None
        return (time.monotonic() - self._began) / done * (planned - done)

    @property
    def now(self) -> LoadNow | None:
        generator, current = self._generator, self._current
        if generator is None or current is None:
            return None
        done, planned = self.progress
        lane, level = current
        return LoadNow(
            lane=self._sweep.lanes[lane],
            level=level,
            block=min(done + 1, planned),
            blocks=planned,
            elapsed=generator.elapsed,
            seconds=generator.seconds,
            in_flight=generator.in_flight,
            tokens_per_second=generator.tokens_per_second,
            failures=generator.failures,
            users=generator.users,
        )

    @property
    def _repetitions(self) -> int:
        return self.order.starts if self.order.restart_command else 1

    # The sweep

    def _work(self) -> None:
        self._began = time.monotonic()
        with self._stopped_instead_of(ServerError), suppress(_AllSentError):
            for repetition in range(self._repetitions):
                for stage in stages_of(self.order, self._sweep.lanes, repetition):
                    self._load_stage(stage, repetition)
            self._sweep = replace(self._sweep, complete=True)
        self._save()

    def _load_stage(self, stage: Stage, repetition: int) -> None:
        if self.order.restart_command:
            self._restart(stage)
        for lane in stage.lanes:
            self._warm_up(self._sweep.lanes[lane])
        unit = 0
        while unit < self._units:
            began = time.monotonic()
            for level in levels_of(self.order.settings, unit):
                for half, lane in enumerate(unit_of(stage)):
                    self._load(lane, level, unit, repetition, half < len(stage.lanes))
            self._unit_seconds.append(time.monotonic() - began)
            self._save()
            unit += 1
            if not self._sweep.planned_units and unit == pilot_units(self.order):
                self._plan()
        self._start += bool(self.order.restart_command)

    def _plan(self) -> None:
        logs = [list(each.values()) for each in log_speedups(self._sweep).values()]
        seconds = sum(self._unit_seconds) / len(self._unit_seconds)
        restart = max(self._restart_seconds, default=0.0)
        self._units = units_planned(self.order, logs, seconds, restart)
        self._sweep = replace(self._sweep, planned_units=self._units)

    def _restart(self, stage: Stage) -> None:
        began, sweep = time.monotonic(), self._sweep
        at = self.order.servers[0].address
        place = next(each for each in stage.lanes if not sweep.lanes[each].baseline)
        self._step = f"restarting {at}"
        info = self._starter.restart(self.order.restart_command, sweep.lanes[place], stage.gamma)
        lanes = list(sweep.lanes)
        for each in stage.lanes:
            if lanes[each].info.address == at:
                lanes[each] = replace(lanes[each], info=info)
        self._sweep = replace(sweep, lanes=tuple(lanes), starts=sweep.starts + 1)
        if stage.gamma and info.gamma is not None and info.gamma != stage.gamma:
            self._note(
                f"The restart command got γ {stage.gamma}, but the engine reports γ {info.gamma}."
            )
        self._restart_seconds.append(time.monotonic() - began)

    def _warm_up(self, lane: LoadLane) -> None:
        """Request one short answer from the engine, because its first answer may take long."""
        self._check_stop()
        self._step = f"warming up {lane.label}"
        settings = self.order.settings
        tokens = min(_WARM_UP, settings.max_new_tokens)
        self._sent += 1
        try:
            answer = self._begin(
                self._ask(
                    lane, self.order.items[0].prompt, replace(settings, max_new_tokens=tokens),
                    seed=settings.seed, salt="warm-up",
                )
            )  # fmt: skip
            try:
                for _ in answer:
                    pass
            finally:
                self._parts.remove(answer)
        except ServerError:  # if it lasts, the first block shows it
            self._check_stop()
        time.sleep(_UNTIL_COUNTED)

    # One block

    def _load(self, lane: int, level: float, unit: int, repetition: int, first: bool) -> None:
        if any(level >= lowest for lowest in self._failed.values()):
            return  # a speedup needs all lanes
        self._check_stop()
        own, number = self._sweep.lanes[lane], len(self._sweep.blocks)
        self._step = f"{own.label}, level {level:g}"
        before = self._counters(own)
        settings = self.order.settings
        dealer = PromptDealer(
            self.order.items,
            order=f"{settings.seed} {level:g} {unit} {first}",
            block=number if settings.numbered and self._may_share_a_cache else None,
        )
        generator = LoadGenerator(
            lambda prompt, request: self._ask(
                own, prompt, settings, seed=settings.seed + request, salt=f"{number}-{request}"
            ),
            settings,
            level,
            dealer,
            gauges=self._gauges(own),
            requests_left=settings.most_requests - self._sent,
        )
        self._begin(generator)
        self._generator, self._current = generator, (lane, level)
        try:
            block = generator.run()
        finally:
            self._generator = self._current = None
            self._parts.remove(generator)
        self._sent += generator.sent
        after = self._counters_after(own, before, block)
        self._add(
            replace(
                block, lane=lane, start=self._start, repetition=repetition, unit=unit,
                before=before, after=after,
                restarted=was_restarted(before, after, block.gauges),
            )
        )  # fmt: skip

    def _add(self, block: LoadBlock) -> None:
        self._sweep = replace(self._sweep, blocks=(*self._sweep.blocks, block))
        lane, unit = self._sweep.lanes[block.lane], self.order.settings.mode
        if block.requests and all(each.failed for each in block.requests):
            why = f"{lane.label}: {block.requests[0].failure}"
            if block.level == min(self.order.settings.levels) or not any(
                not each.failed for other in self._sweep.blocks for each in other.requests
            ):
                raise ServerError(
                    f"Every request failed ({why.rstrip('.')}).",
                    remedy="Fix the cause, or give lower levels of load.",
                )
            if not block.restarted:
                self._failed[block.lane] = block.level
                what = "users" if unit == "closed" else "requests/s"
                self._note(f"At {block.level:g} {what}, every request failed. {why}")
        if self._sent >= self.order.settings.most_requests:
            self._note(f"The sweep ended early, after {self._sent:,} requests.")
            raise _AllSentError

    @property
    def _may_share_a_cache(self) -> bool:
        """Return whether some engine's prefix cache cannot be switched off for a request."""
        return any(engine_of(each.info).uncached is None for each in self._sweep.lanes)

    def _ask(
        self, lane: LoadLane, prompt: str, settings: LoadSettings, *, seed: int, salt: str
    ) -> Answer:
        limit = settings.request_limit
        wanted = ServerSettings(
            max_new_tokens=settings.max_new_tokens, temperature=settings.temperature,
            top_k=settings.top_k, top_p=settings.top_p, seed=seed,
            chat=settings.chat, ignore_eos=settings.ignore_eos,
        )  # fmt: skip
        return ask(
            lane.info, prompt, wanted, speculate=not lane.switched_off,
            allow_remote=self.order.allow_remote, key=key_of(lane),
            limits=Limits(between=limit, total=limit),
            cache_salt=f"{self._sweep.id}-{salt}",
        )  # fmt: skip

    def _gauges(self, lane: LoadLane) -> GaugeReader | None:
        if not lane.info.capabilities.counters:
            return None
        return GaugeReader(
            lane.info.address, lane.info.engine, key=key_of(lane),
            allow_remote=self.order.allow_remote,
        )  # fmt: skip

    def _counters(self, lane: LoadLane) -> Counters | None:
        """Return the engine's counters.

        If the engine does not answer, wait for the engine up to a time limit, then try again.
        """
        try:
            return self._read(lane)
        except ServerError:
            self._starter.wait_for(lane)
            return self._read(lane)

    def _read(self, lane: LoadLane) -> Counters | None:
        if not lane.info.capabilities.counters:
            return None
        return read_counters(
            lane.info, allow_remote=self.order.allow_remote, key=key_of(lane)
        )  # fmt: skip

    def _counters_after(
        self, lane: LoadLane, before: Counters | None, block: LoadBlock
    ) -> Counters | None:
        """Return the engine's counters, once they include the block's tokens or time is up."""
        if before is None:
            return None
        received = sum(each.tokens for each in block.requests)
        until = time.monotonic() + _COUNTED_WITHIN
        while True:
            self._check_stop()
            found = self._counters(lane)
            if found is None or found.generated is None or before.generated is None:
                return found
            if found.generated - before.generated >= received or went_back(before, found):
                return found
            if time.monotonic() >= until:
                return found
            time.sleep(_EVERY)

    # The record

    def _note(self, notice: str) -> None:
        if notice not in self._sweep.notices:
            self._sweep = replace(self._sweep, notices=(*self._sweep.notices, notice))

    def _save(self) -> None:
        if self._keep and self._sweep.blocks:
            save_sweep(self._sweep)


def was_restarted(
    before: Counters | None, after: Counters | None, gauges: Sequence[EngineGauges]
) -> bool:
    """Return whether the engine was restarted, which resets its counters.

    The engine was restarted if a counter is lower in ``after`` than in ``before``, or if the number
    of prompt tokens decreased from one entry of ``gauges`` to the next.
    """
    if before and after and went_back(before, after):
        return True
    return any((new.prompt_tokens or 0) < (old.prompt_tokens or 0) for old, new in pairwise(gauges))


def _new_sweep(order: LoadOrder) -> LoadSweep:
    now = datetime.now(UTC)
    lanes = lanes_of(order)
    return LoadSweep(
        id=f"{now:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}",
        created=now.isoformat(timespec="seconds"),
        lanes=lanes,
        settings=order.settings,
        shared_cores=_shared_cores(lanes),
        notices=_notices(lanes),
    )


def _shared_cores(lanes: Sequence[LoadLane]) -> int | None:
    local = any(is_local(each.info.address) for each in lanes)
    return os.cpu_count() if local else None


def _notices(lanes: Sequence[LoadLane]) -> tuple[str, ...]:
    silent = {
        each.info.address for each in lanes
        if each.kind == "speculative" and each.info.capabilities.speculates is False
        and each.gamma is None
    }  # fmt: skip
    found = [f"The engine at {each} does not speculate." for each in sorted(silent)]
    if all(each.kind != "alone" for each in lanes):
        found.append("There is no target alone to compare with, so there is no speedup.")
    return tuple(found)
