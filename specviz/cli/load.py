"""``load``: does the speedup survive many users? A serving engine under load, or a stored sweep."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from specviz.cli.option_values import items_from
from specviz.cli.output_files import check_output, save_text
from specviz.cli.progress_lines import say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import Painter, painter_for, paragraph, table
from specviz.errors import ConfigError
from specviz.record.load_run import LoadSettings, LoadSweep
from specviz.record.numbers import RATE, time_text
from specviz.record.prompts import preset_suite
from specviz.record.server_run import ServerInfo

if TYPE_CHECKING:
    from specviz.load.foreign import ForeignLoad
    from specviz.load.load_job import LoadJob, LoadOrder

_EVERY = 5.0  # seconds between two lines of progress
STOPPED = 130


def command(options: argparse.Namespace) -> int:
    if "://" not in options.address and Path(options.address).is_file():
        return _show_file(options)
    for option, path in (("--out", options.out), ("--csv", options.csv), ("--html", options.html)):
        if path is not None:
            check_output(path, option)
    order = _order(options)
    _announce(order, confirmed=options.confirm)
    job = _carried_out(order)
    if job.error is not None and not job.sweep.blocks:
        raise job.error
    _write(job.sweep, options)
    _print(job.sweep, options)
    if job.error is not None:
        raise job.error
    return STOPPED if job.was_stopped else 0


def _order(options: argparse.Namespace) -> LoadOrder:
    from specviz.load.load_job import LoadOrder
    from specviz.servers.address import BASELINE_KEY, SERVER_KEY, KeyName, withheld_key
    from specviz.servers.finding import find_server

    settings = _settings(options)

    def found(address: str, key: KeyName) -> ServerInfo:
        info = find_server(
            address, model=options.model, allow_remote=options.allow_remote, key=key
        )  # fmt: skip
        if withheld := withheld_key(key, info.address):
            say(withheld)
        return info

    gammas = "" if options.gammas is None else options.gammas
    return LoadOrder(
        servers=tuple(found(each, SERVER_KEY) for each in (options.address, *options.also)),
        alone=None if options.baseline is None else found(options.baseline, BASELINE_KEY),
        items=items_from(options) or preset_suite(),
        settings=settings,
        restart_command=options.restart_command,
        gammas=tuple(int(each) for each in _numbers(gammas, "--gammas") if gammas),
        starts=options.starts,
        allow_remote=options.allow_remote,
    )


def _settings(options: argparse.Namespace) -> LoadSettings:
    from specviz.cli.attach import settings_from
    from specviz.load.order import check_settings

    sampling = settings_from(options)
    items = items_from(options) or preset_suite()
    open_loop = options.rate is not None
    settings = LoadSettings(
        mode="open" if open_loop else "closed",
        levels=_numbers(options.rate, "--rate")
        if open_loop
        else _numbers(options.concurrency, "--concurrency"),
        seconds=options.seconds, ramp=options.ramp, budget=options.budget,
        max_new_tokens=sampling.max_new_tokens, temperature=sampling.temperature,
        top_k=sampling.top_k, top_p=sampling.top_p, seed=sampling.seed, chat=sampling.chat,
        ignore_eos=sampling.ignore_eos, most_in_flight=options.most_in_flight,
        most_requests=options.most_requests, request_limit=options.request_limit,
        numbered=options.numbered, prompts=len(items),
    )  # fmt: skip
    check_settings(settings)
    return settings


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(each) for each in text.split(",")) if text else ()
    except ValueError:
        raise ConfigError(f"{option} is {text!r}.", remedy="Give numbers, such as 1,2,4.") from None


def _announce(order: LoadOrder, *, confirmed: bool) -> None:
    """Say what will be sent; raise ConfigError for another machine without ``--confirm``."""
    from specviz.load.planning import check_budget, words_of_most
    from specviz.servers.address import is_local

    check_budget(order)
    infos = (*order.servers, *((order.alone,) if order.alone else ()))
    local = [is_local(each.address) for each in infos]
    if not all(local) and not confirmed:
        raise ConfigError(
            f"This sends {words_of_most(order)}, which is another machine.",
            remedy="Add --confirm to send them, or give a smaller --most-requests.",
        )
    say(f"sending {words_of_most(order)}")
    if any(local):
        say(f"the engine shares the {os.cpu_count()} cores of this machine with this command")


def _carried_out(order: LoadOrder) -> LoadJob:
    from specviz.load.load_job import LoadJob

    job = LoadJob(order)
    thread = Thread(target=job.carry_out, name="load", daemon=True)
    thread.start()
    try:
        while not job.wait(_EVERY):
            _say_progress(job)
    except KeyboardInterrupt:
        say("stopping; the finished blocks are kept")
        job.stop()
        thread.join()
    return job


def _say_progress(job: LoadJob) -> None:
    done, planned = job.progress
    left = f", {time_text(job.seconds_left)} left" if job.seconds_left is not None else ""
    now = job.now
    rate = "" if now is None else (
        f"; {now.in_flight} in flight, {RATE.shown(now.tokens_per_second)} tokens/s, "
        f"{now.failures} failures"
    )  # fmt: skip
    say(f"block {min(done + 1, planned)} of {planned}{left}: {job.doing}{rate}")


# Results


def _write(sweep: LoadSweep, options: argparse.Namespace) -> None:
    from specviz.load.export import sweep_csv, sweep_html
    from specviz.load.stored import sweep_to_json

    for option, path, make in (
        ("--out", options.out, sweep_to_json),
        ("--csv", options.csv, sweep_csv),
        ("--html", options.html, sweep_html),
    ):
        if path is not None:
            save_text(path, make(sweep), option, "Give another file.")


def _print(sweep: LoadSweep, options: argparse.Namespace) -> None:
    from specviz.figures.load_figures import load_figures
    from specviz.figures.load_rows import count_rows, speed_rows
    from specviz.figures.load_words import load_words

    figures = load_figures(sweep)
    words = load_words(sweep, figures)
    if options.json:
        found = {
            "kind": "load",
            "lanes": [asdict(each) for each in sweep.lanes],
            "settings": asdict(sweep.settings),
            "levels": [asdict(each) for each in figures.levels],
            "speculation": [asdict(each) for each in figures.lanes],
            "complete": sweep.complete,
            "sentences": list(words.all),
        }
        print(to_json(found))
        return
    painter = painter_for(sys.stdout, os.environ)
    tables = [_table(painter, rows(sweep, figures)) for rows in (speed_rows, count_rows)]
    said = "\n".join(paragraph(painter, each) for each in words.all)
    print("\n\n".join((*tables, said)))


def _table(painter: Painter, rows: Sequence[Mapping[str, str]]) -> str:
    return table(painter, [[name, *(row[name] for row in rows)] for name in rows[0]])


def _show_file(options: argparse.Namespace) -> int:
    """Print a stored sweep, or the result of another tool."""
    from specviz.load.foreign import open_load

    found = open_load(Path(options.address))
    if isinstance(found, LoadSweep):
        _write(found, options)
        _print(found, options)
    else:
        _print_foreign(found, options)
    return 0


def _print_foreign(found: ForeignLoad, options: argparse.Namespace) -> None:
    from specviz.load.foreign import foreign_rows

    if options.json:
        print(to_json(asdict(found)))
        return
    print(_table(painter_for(sys.stdout, os.environ), foreign_rows(found)))
