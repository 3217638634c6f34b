"""``attach``: measure the speculation of a running serving engine, or read its log or metrics.

Before prompts are sent, a line on standard error states how many are sent, and to which address.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.cli.interrupts import stop_on_interrupt
from specviz.cli.option_values import items_from
from specviz.cli.progress_lines import say
from specviz.cli.report import answers_report, speedup_of_answers, to_json
from specviz.cli.server_render import (
    render_against,
    render_answer,
    render_metrics,
    render_rates,
    render_server,
    render_server_round,
    server_heading,
)
from specviz.cli.terminal_text import Painter, painter_for
from specviz.errors import ConfigError, ServerError, SpecvizError
from specviz.figures.server_figures import metrics_of_counters, pooled_metrics, server_metrics
from specviz.record.prompts import SuiteItem, preset_suite
from specviz.record.server_run import Counters, ServerInfo, ServerSettings, ServerTrace
from specviz.store.text_files import read_text

if TYPE_CHECKING:
    from specviz.servers import Answer, Rates

_MOST_LOG_BYTES = 200_000_000
_BLOCKS, _BLOCKS_OF_MANY = 6, 2  # A B B A blocks per prompt: one prompt, several
STOPPED = 130


def command(options: argparse.Namespace) -> int:
    if "://" not in options.address and Path(options.address).is_file():
        return _from_file(options)
    items = items_from(options) or (preset_suite() if options.presets else ())
    _check_options(options, items)
    settings = settings_from(options)
    from specviz.servers.address import SERVER_KEY, withheld_key
    from specviz.servers.finding import find_server

    info = find_server(options.address, model=options.model, allow_remote=options.allow_remote)
    if withheld := withheld_key(SERVER_KEY, info.address):
        say(withheld)
    painter = None if options.json else painter_for(sys.stdout, os.environ)
    if painter is not None:
        print(render_server(painter, info) + "\n")
    code = _answer_all(options, info, items, settings, painter) if items else 0
    if code or (items and not options.watch):
        return code
    return _follow(options, info, painter)


def _check_options(options: argparse.Namespace, items: Sequence[SuiteItem]) -> None:
    if not 0.2 <= options.every <= 3600.0:  # refuses NaN, too
        raise ConfigError(f"--every is {options.every}.", remedy="Give seconds from 0.2 to 3600.")
    if options.baseline is not None and not items:
        raise ConfigError(
            "--baseline compares answers, but there is no prompt.",
            remedy="Give --prompt, --suite, --presets or --tasks.",
        )


def settings_from(options: argparse.Namespace) -> ServerSettings:
    from specviz.record.trace import RunConfig

    config = RunConfig(
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p,
        max_new_tokens=options.max_new_tokens, seed=options.seed,
    )  # fmt: skip  # raises ConfigError for invalid settings
    return ServerSettings(
        max_new_tokens=config.max_new_tokens, temperature=config.temperature, top_k=config.top_k,
        top_p=config.top_p, seed=config.seed, chat=options.chat, ignore_eos=options.ignore_eos,
    )  # fmt: skip


# Answers


def _answer_all(
    options: argparse.Namespace,
    info: ServerInfo,
    items: Sequence[SuiteItem],
    settings: ServerSettings,
    painter: Painter | None,
) -> int:
    blocks = _blocks(options, info, items)
    _report_requests(info, items, settings, times=1 + (4 * blocks + 2 if blocks else 0))
    traces, stopped = list[ServerTrace](), False
    for item in items:
        trace, stopped = _answer(info, item, settings, options, painter)
        traces.append(trace)
        if stopped:
            break
        if painter is not None:
            print("\n" + render_answer(painter, trace, server_metrics(trace)) + "\n")
    if blocks and not stopped:
        traces = _timed_against_target(options, info, items, settings, traces)
    _print_answers(info, traces, painter)
    if options.keep:
        _save_runs(traces)
    return STOPPED if stopped else 0


def _blocks(options: argparse.Namespace, info: ServerInfo, items: Sequence[SuiteItem]) -> int:
    """Return how many blocks to time per prompt; 0 if the target alone cannot be timed.

    A block is four answers, A B B A: the target alone (A) before and after speculation (B).
    """
    if options.baseline is None and not info.capabilities.can_switch_off:
        return 0
    return _BLOCKS if len(items) == 1 else _BLOCKS_OF_MANY


def _report_requests(
    info: ServerInfo, items: Sequence[SuiteItem], settings: ServerSettings, times: int
) -> None:
    characters = sum(len(each.prompt) for each in items)
    prompts = "1 prompt" if len(items) == 1 else f"{len(items)} prompts"
    say(
        f"sending {prompts} ({characters:,} characters), {times} "
        f"time{'s' * (times != 1)} each, for at most {settings.max_new_tokens} tokens per answer, "
        f"to {info.address}"
    )


def _answer(
    info: ServerInfo,
    item: SuiteItem,
    settings: ServerSettings,
    options: argparse.Namespace,
    painter: Painter | None,
) -> tuple[ServerTrace, bool]:
    from specviz.servers.asking import ask

    if painter is not None:
        print(server_heading(painter), flush=True)
    answer = ask(info, item.prompt, settings, allow_remote=options.allow_remote)
    with stop_on_interrupt(answer) as interrupts:
        for entry in answer:
            if painter is not None:
                print(render_server_round(painter, entry), flush=True)
    return answer.trace(), interrupts.count > 0


def _timed_against_target(
    options: argparse.Namespace,
    info: ServerInfo,
    items: Sequence[SuiteItem],
    settings: ServerSettings,
    traces: Sequence[ServerTrace],
) -> list[ServerTrace]:
    """Time each prompt with and without speculation; return the traces with these times."""
    from specviz.servers.address import BASELINE_KEY, withheld_key
    from specviz.servers.baseline import blocks_against
    from specviz.servers.finding import find_server

    alone = None
    if options.baseline is not None:
        alone = find_server(
            options.baseline, model=options.model, allow_remote=options.allow_remote,
            key=BASELINE_KEY,
        )  # fmt: skip
        if withheld := withheld_key(BASELINE_KEY, alone.address):
            say(withheld)
    found = list[ServerTrace]()
    for item, trace in zip(items, traces, strict=True):
        blocks = blocks_against(
            _asker(info, item, settings, options),
            _asker(alone or info, item, settings, options, baseline=alone is not None),
            blocks=_blocks(options, info, items),
        )
        address = info.address if alone is None else alone.address
        found.append(dataclasses.replace(trace, baseline=tuple(blocks), baseline_address=address))
        say(f"timed against the target alone: prompt {len(found)} of {len(items)}")
    return found


def _asker(
    info: ServerInfo,
    item: SuiteItem,
    settings: ServerSettings,
    options: argparse.Namespace,
    *,
    baseline: bool | None = None,
) -> Callable[[], Answer]:
    """Return a function that sends the prompt of ``item`` once and returns the answer.

    Args:
        baseline: True for the server at --baseline; False for this engine with speculation
            switched off; None for this engine as it is.
    """
    from specviz.servers import BASELINE_KEY, SERVER_KEY, ask

    return lambda: ask(
        info, item.prompt, settings, speculate=baseline is not False,
        allow_remote=options.allow_remote, key=BASELINE_KEY if baseline else SERVER_KEY,
    )  # fmt: skip


def _print_answers(
    info: ServerInfo,
    traces: Sequence[ServerTrace],
    painter: Painter | None,
) -> None:
    if painter is None:
        print(to_json(answers_report(info, traces)))
        return
    if len(traces) > 1:
        print(render_metrics(painter, pooled_metrics(traces)))
    print(render_against(painter, speedup_of_answers(traces), info, traces))


def _save_runs(traces: Sequence[ServerTrace]) -> None:
    from specviz.store import Library
    from specviz.store.saving import save_run

    try:
        for each in traces:
            if each.rounds:
                save_run(Library(), each)
    except SpecvizError as error:
        say(f"not saved in the run library: {error.in_full}")


# Counters


def _follow(options: argparse.Namespace, info: ServerInfo, painter: Painter | None) -> int:
    """Print the server's counters and, with ``--watch``, their rates every ``--every`` seconds."""
    from specviz.servers.counters import rates, read_counters

    if not info.capabilities.counters:
        raise ServerError(
            f"{info.address} exposes no metrics, and no prompt was given.",
            remedy="Give --prompt, or start the engine with its metrics enabled.",
        )
    before = read_counters(info, allow_remote=options.allow_remote)
    _print_counters(before, painter, info)
    with contextlib.suppress(KeyboardInterrupt):
        while options.watch:
            time.sleep(options.every)
            after = read_counters(info, allow_remote=options.allow_remote)
            _print_rates(rates(before, after), painter)
            before = after
    return 0


def _from_file(options: argparse.Namespace) -> int:
    """Print the counters in a saved /metrics page or an engine's log."""
    from specviz.servers import counters_of_dump, counters_of_log

    if items_from(options) or options.baseline is not None or options.watch:
        raise ConfigError(
            f"{options.address} is a file, which cannot answer prompts.",
            remedy="Give the address of a running server.",
        )
    text = read_text(Path(options.address), "The file", _MOST_LOG_BYTES)
    found = counters_of_log(text)
    last = found[-1] if found else counters_of_dump(text)
    _print_counters(last, None if options.json else painter_for(sys.stdout, os.environ), None)
    return 0


def _print_counters(found: Counters, painter: Painter | None, info: ServerInfo | None) -> None:
    figures = metrics_of_counters(found)
    for notice in found.notices:
        say(notice)
    if painter is not None:
        print(render_metrics(painter, figures), flush=True)
        return
    print(
        to_json(
            {
                "engine": info and info.engine,
                "version": info and info.version,
                "model": info and info.model,
                "capabilities": info and dataclasses.asdict(info.capabilities),
                "text": None,
                "token_ids": None,
                "rounds": None,
                "metrics": dataclasses.asdict(figures),
                "counters": dataclasses.asdict(found),
            }
        ),
        flush=True,
    )


def _print_rates(found: Rates | None, painter: Painter | None) -> None:
    if painter is not None:
        print(render_rates(painter, found), flush=True)
    else:
        print(to_json(found and dataclasses.asdict(found)), flush=True)
