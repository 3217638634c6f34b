"""``bench``: time specviz's engine against others, with progress on standard error."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from specviz.cli.batch_bench import measure_batch, render_batch
from specviz.cli.bench_tables import machine_lines, table, value_rows
from specviz.cli.gpu_bench import measure_gpu, render_gpu_bench
from specviz.cli.option_values import check_pair, spec_from
from specviz.cli.progress_lines import progress_in_lines, say
from specviz.cli.report import to_json
from specviz.cli.terminal_text import INDENT, Painter, one_line, painter_for
from specviz.errors import ConfigError
from specviz.installation import require_engine
from specviz.record.bodies import NO_BODY
from specviz.record.limits import check_one_of
from specviz.record.pairs import CHAT_PAIR, COPY_TYPES, PairSpec

if TYPE_CHECKING:
    from specviz.engine import Pair

REPEATS = 20
_DEFAULT_TYPES = ("q8_0", "q5_0", "q4_0")


def command(options: argparse.Namespace) -> int:
    check_pair(options, needs_draft=not options.quantised)
    if options.repeats is not None and options.repeats < 1:
        raise ConfigError(f"repeats is {options.repeats}.", remedy="Give a whole number from 1.")
    if options.plot and not options.accounting:
        raise ConfigError("--plot needs --accounting.", remedy="Remove it, or add --accounting.")
    if options.types and not options.quantised:
        raise ConfigError("--types needs --quantised.", remedy="Remove it, or add --quantised.")
    if options.quantised and (options.gpu or options.quick or options.accounting):
        raise ConfigError(
            "--quantised cannot be combined with --gpu, --quick or --accounting.",
            remedy="Remove one of these options.",
        )
    if options.accounting and (options.gpu or options.quick):
        raise ConfigError(
            "--accounting cannot be combined with --gpu or --quick.",
            remedy="Remove one of these options; with --accounting, --repeats 1 is the shortest.",
        )
    if options.batch and (options.gpu or options.accounting or options.quantised):
        raise ConfigError(
            "--batch cannot be combined with --gpu, --accounting or --quantised.",
            remedy="Remove one of these options.",
        )
    if options.temperature and not options.batch:
        raise ConfigError("--temperature needs --batch.", remedy="Remove it, or add --batch.")
    for name in ("bodies", "contexts", "gammas"):
        if getattr(options, name) is not None and not options.gpu:
            raise ConfigError(f"--{name} needs --gpu.", remedy="Remove it, or add --gpu.")
    measure, render = (measure_gpu, render_gpu_bench) if options.gpu else (_measure, render_bench)
    if options.accounting:
        measure = measure_accounted
    if options.quantised:
        measure = measure_quantised
    if options.batch:
        measure, render = measure_batch, render_batch
    with contextlib.redirect_stdout(sys.stderr):  # libraries may print
        result = measure(options, say)
    painter = painter_for(sys.stdout, os.environ)
    print(to_json(result) if options.json else render(painter, result))
    return 0


def _measure(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    from specviz.bench.bench import run_bench
    from specviz.engine import load_pair

    with_body = spec_from(options)
    body = with_body.target_body

    def load(wanted: str) -> Pair:
        say("loading the pair")
        bare = replace(with_body, target_body=NO_BODY, draft_body=NO_BODY)
        return load_pair(bare if wanted == NO_BODY else with_body, progress=progress_in_lines(say))

    repeats = options.repeats or REPEATS
    return run_bench(load, body=body, repeats=repeats, quick=options.quick, say=say)


def measure_accounted(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Compare observed, accounted and forecast speedups; with --plot, draw all three.

    Each run is made in a separate process.
    """
    from specviz.bench.accounting import SEEDS, measure_accounting
    from specviz.bench.accounting_plot import accounting_svg

    spec = spec_from(options)
    asked = {
        "--pair": options.pair, "--draft": options.draft, "--target": options.target,
        "--device": options.device, "--dtype": options.dtype, "--threads": options.threads,
        "--draft-body": spec.draft_body, "--shared-vocabulary": options.shared_vocabulary,
        "--target-weights": spec.target_weights, "--draft-weights": spec.draft_weights,
    }  # fmt: skip
    known = [str(part) for name, value in asked.items() if value for part in (name, value)]
    known += ["--other-target"] if options.other_target else []
    result, runs = measure_accounting(known, spec.target_body, options.repeats or SEEDS, say)
    if options.plot:
        options.plot.write_text(accounting_svg(runs), encoding="utf-8")
    return result


def measure_quantised(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Compare specviz with llama.cpp on a GGUF file and on requantised copies of it."""
    require_engine()
    from specviz.bench.quantised_bench import run_quantised_bench
    from specviz.engine import load_pair

    types = (options.types or ",".join(_DEFAULT_TYPES)).lower().split(",")
    for each in types:
        check_one_of("types", each, COPY_TYPES)
    asked = spec_from(options).without_bodies
    given = (asked.dtype, asked.target_weights, asked.draft_weights, asked.step)
    if set(given) != {"auto"} or asked.draft is not None:
        raise ConfigError(
            "--quantised excludes --draft, --dtype, --step, --target-weights and --draft-weights.",
            remedy="Remove these options; --types names the types of the copies.",
        )
    spec = replace(asked, name=CHAT_PAIR) if asked.embedded and not asked.name else asked

    def load(wanted: PairSpec) -> Pair:
        return load_pair(wanted, progress=progress_in_lines(say))

    return run_quantised_bench(spec, types, options.repeats or REPEATS, load, say)


def render_bench(painter: Painter, result: Mapping[str, Any]) -> str:
    """Render the results of the bench: ratios, lanes, divergences, notices and the machine."""
    tables = (
        _ratios(result.get("ratios") or {}, result.get("intervals") or {}),
        result.get("rows") or [],
        result.get("divergences") or [],
        value_rows("figure", result.get("figures") or {}),
    )
    blocks = [table(painter, rows) for rows in tables if rows]
    notices = [INDENT + one_line(notice) for notice in result.get("notices") or []]
    blocks += ["\n".join(notices)] if notices else []
    return "\n\n".join([*blocks, *machine_lines(painter, result.get("environment") or {})])


def _ratios(
    ratios: Mapping[str, Any], intervals: Mapping[str, Sequence[float] | None]
) -> list[dict[str, Any]]:
    """Return a row per ratio, with its interval."""
    rows: list[dict[str, Any]] = []
    for name, value in ratios.items():
        low, high = intervals.get(name) or (None, None)
        rows.append({"ratio": name, "value": value, "95 % from": low, "to": high})
    return rows
