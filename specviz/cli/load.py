"""``load``: measure a serving engine under load, with and without speculation.

Given files instead of an address, the command shows a saved sweep (a measurement at several loads)
or results of another tool.

Before requests are sent, a line on standard error states how many are sent, and to which addresses.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specviz.cli.interrupts import stop_on_interrupt, waiting
from specviz.cli.load_options import USERS
from specviz.cli.option_values import items_from
from specviz.cli.output_files import check_output, save_text
from specviz.cli.progress_lines import say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph, table
from specviz.errors import ConfigError, ServerError
from specviz.record.load_run import LoadSettings, LoadSweep
from specviz.record.numbers import RATE, time_text
from specviz.record.prompts import PRESETS, preset_suite
from specviz.record.server_run import ServerInfo

if TYPE_CHECKING:
    from specviz.load.foreign import ForeignLoad
    from specviz.load.load_job import LoadJob
    from specviz.load.order import LoadOrder
    from specviz.servers.address import KeyName

STOPPED = 130
_STARTS = 3
_OUTPUTS = ("out", "csv", "html")
_POLL = 0.5  # seconds


def command(options: argparse.Namespace) -> int:
    for name in _OUTPUTS:
        if (path := getattr(options, name)) is not None:
            check_output(path, f"--{name}")
    if all("://" not in each and Path(each).is_file() for each in options.addresses):
        return _open_files(options)
    order = _order(options)
    job = _run(order, options)
    sweep = job.sweep
    if job.error is not None:
        if not sweep.blocks:
            raise job.error
        say(f"ended early: {job.error.in_full}")
    _save(options, sweep)
    _print_sweep(options, sweep)
    if job.error is not None:
        raise job.error
    return STOPPED if job.state == "stopped" else 0


# A sweep


def _order(options: argparse.Namespace) -> LoadOrder:
    from specviz.load.order import LoadOrder, check_settings
    from specviz.servers.address import BASELINE_KEY, SERVER_KEY

    settings = _settings(options)
    check_settings(settings)
    gammas = tuple(int(each) for each in _numbers("--gammas", options.gammas, int))
    starts = _starts(options)
    items = items_from(options) or preset_suite()
    order = LoadOrder(
        servers=tuple(_server(options, each, SERVER_KEY) for each in options.addresses),
        alone=_server(options, options.baseline, BASELINE_KEY) if options.baseline else None,
        items=items,
        settings=settings,
        restart_command=options.restart_command,
        gammas=gammas,
        starts=starts,
        allow_remote=options.allow_remote,
    )
    return _with_budget(order, options)


def _settings(options: argparse.Namespace) -> LoadSettings:
    from specviz.cli.attach import settings_from

    answers = settings_from(options)
    rates = options.rate is not None
    levels = (
        _numbers("--rate", options.rate, float)
        if rates
        else _numbers("--concurrency", options.concurrency or USERS, float)
    )
    items = items_from(options) or preset_suite()
    return LoadSettings(
        mode="open" if rates else "closed",
        levels=tuple(sorted(levels)),
        seconds=options.seconds,
        ramp=options.ramp,
        budget=options.budget if options.budget is not None else 1.0,
        max_new_tokens=answers.max_new_tokens,
        temperature=answers.temperature,
        top_k=answers.top_k,
        top_p=answers.top_p,
        seed=answers.seed,
        chat=answers.chat,
        ignore_eos=answers.ignore_eos,
        most_in_flight=options.most_in_flight,
        most_requests=options.most_requests,
        request_limit=options.request_limit,
        numbered=options.numbered,
        suite=str(options.suite.name) if options.suite is not None else PRESETS,
        prompts=len(items),
    )


def _numbers(option: str, text: str | None, kind: type[int] | type[float]) -> list[float]:
    try:
        return [float(kind(each)) for each in (text or "").split(",") if text]
    except ValueError:
        raise ConfigError(
            f"{option} is {text!r}.", remedy="Give numbers separated by commas, such as 1,2,4."
        ) from None


def _starts(options: argparse.Namespace) -> int:
    if options.starts is not None and not options.restart_command:
        raise ConfigError("--starts needs --restart-command.", remedy="Add --restart-command.")
    default = _STARTS if options.restart_command else 1
    return default if options.starts is None else options.starts


def _with_budget(order: LoadOrder, options: argparse.Namespace) -> LoadOrder:
    """Return ``order`` with a time limit: --budget or, by default, enough for a pilot sweep."""
    from specviz.load.planning import check_budget, pilot_seconds

    if options.budget is None:
        budget = max(1.0, pilot_seconds(order))
        order = replace(order, settings=replace(order.settings, budget=budget))
    check_budget(order)
    return order


def _server(options: argparse.Namespace, address: str, key: KeyName) -> ServerInfo:
    from specviz.servers.address import withheld_key
    from specviz.servers.finding import find_models, find_server

    if options.model is None:
        models = find_models(address, allow_remote=options.allow_remote, key=key)
        if len(models) > 1:
            raise ServerError(
                f"{address} serves {len(models)} models: {', '.join(models[:5])}.",
                remedy="Choose one of them with --model.",
            )
    info = find_server(address, model=options.model, allow_remote=options.allow_remote, key=key)
    if withheld := withheld_key(key, info.address):
        say(withheld)
    return info


def _run(order: LoadOrder, options: argparse.Namespace) -> LoadJob:
    from specviz.load.load_job import LoadJob

    _confirm(order, options)
    job = LoadJob(order, keep=options.keep)
    for each in job.sweep.notices:
        say(each)
    thread = threading.Thread(target=job.carry_out, name="load", daemon=True)
    with stop_on_interrupt(job), waiting("starting") as status:
        thread.start()
        done = 0
        while thread.is_alive():
            thread.join(_POLL)
            status(_status(job))
            if job.progress[0] > done and not sys.stderr.isatty():
                done = job.progress[0]
                say(f"block {done} of {job.progress[1]}: {job.doing}")
    return job


def _status(job: LoadJob) -> str:
    done, planned = job.progress
    now, left = job.now, job.seconds_left
    rate = ""
    if now is not None:
        pace = RATE.bare(now.tokens_per_second)
        rate = f", {now.in_flight} in flight, {pace} tokens/s"
    remaining = f", {time_text(left)} left" if left is not None else ""
    return f"block {done + 1} of {planned}: {job.doing}{rate}{remaining}"


def _confirm(order: LoadOrder, options: argparse.Namespace) -> None:
    """Print what will be sent; raise ConfigError if sending to another machine needs --confirm."""
    from specviz.load.planning import words_of_most
    from specviz.servers.address import is_local

    infos = [*order.servers, *([order.alone] if order.alone else [])]
    words = words_of_most(order)
    if not options.confirm and not all(is_local(each.address) for each in infos):
        raise ConfigError(
            f"This would send {words}.",
            remedy="Add --confirm to send them, or give a lower --most-requests.",
        )
    say(f"sending {words}")


# Results


def _open_files(options: argparse.Namespace) -> int:
    from specviz.load.foreign import open_load

    found = [open_load(Path(each)) for each in options.addresses]
    for each in found:
        if isinstance(each, LoadSweep):
            _save(options, each)
            _print_sweep(options, each)
        elif options.json:
            print(to_json(asdict(each)))
        else:
            print(render_foreign(painter_for(sys.stdout, os.environ), each))
    return 0


def _save(options: argparse.Namespace, sweep: LoadSweep) -> None:
    from specviz.load.export import sweep_csv, sweep_html
    from specviz.load.stored import sweep_to_json

    writers = {"out": sweep_to_json, "csv": sweep_csv, "html": sweep_html}
    for name in _OUTPUTS:
        if (path := getattr(options, name)) is not None:
            save_text(path, writers[name](sweep), f"--{name}", "Choose another folder.")


def _print_sweep(options: argparse.Namespace, sweep: LoadSweep) -> None:
    if options.json:
        print(to_json(sweep_report(sweep)))
    else:
        print(render_sweep(painter_for(sys.stdout, os.environ), sweep))


def sweep_report(sweep: LoadSweep) -> dict[str, Any]:
    """Return the results of a load sweep as JSON values, without its requests."""
    from specviz.figures.load_figures import load_figures
    from specviz.figures.load_words import load_words

    figures = load_figures(sweep)
    return {
        "kind": "load",
        "schema": 1,
        "id": sweep.id,
        "created": sweep.created,
        "lanes": [asdict(each) | {"label": each.label} for each in sweep.lanes],
        "settings": asdict(sweep.settings),
        "starts": sweep.starts,
        "complete": sweep.complete,
        "levels": [_level_report(each) for each in figures.levels],
        "break_even": [asdict(each) for each in figures.lanes],
        "words": asdict(load_words(sweep, figures)),
    }


def _level_report(each: Any) -> dict[str, Any]:
    return asdict(each) | {
        "tokens_per_round": each.acceptance.tau,
        "alpha_by_position": each.acceptance.alpha_by_position,
    }


def render_sweep(painter: Painter, sweep: LoadSweep) -> str:
    from specviz.figures.load_figures import load_figures
    from specviz.figures.load_rows import count_rows, speed_rows
    from specviz.figures.load_words import load_words
    from specviz.load.export import settings_words

    figures = load_figures(sweep)
    tables = [_table(painter, rows(sweep, figures)) for rows in (speed_rows, count_rows)]
    said = "\n".join(paragraph(painter, each) for each in load_words(sweep, figures).all)
    heading = paragraph(painter, settings_words(sweep), "dim")
    return "\n\n".join((heading, *tables, said))


def render_foreign(painter: Painter, found: ForeignLoad) -> str:
    """Render the results of another load-testing tool as a table."""
    from specviz.load.foreign import foreign_rows

    heading = paragraph(painter, f"{found.tool}: {found.source}, {found.model or 'unknown model'}")
    return f"{heading}\n\n{_table(painter, foreign_rows(found))}"


def _table(painter: Painter, rows: Sequence[Mapping[str, str]]) -> str:
    if not rows:
        return "No block has finished."
    return table(painter, [[name, *(row[name] for row in rows)] for name in rows[0]])
