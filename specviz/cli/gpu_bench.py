"""``bench --gpu``: measure the gain from CUDA graphs, and time a first dashboard visit."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from specviz.cli.bench_tables import machine_lines, table, value_rows
from specviz.cli.first_visit import first_visit
from specviz.cli.option_values import spec_from
from specviz.cli.options import BENCH_BODY
from specviz.cli.progress_lines import progress_in_lines
from specviz.cli.terminal_text import INDENT, Painter, one_line
from specviz.errors import ConfigError, DeviceError, SpecvizError
from specviz.record.bodies import NO_BODY
from specviz.record.numbers import SIZE, UNKNOWN
from specviz.record.pairs import GRAPHED, PairSpec

if TYPE_CHECKING:
    from specviz.bench.gpu_goals import GpuFigure
    from specviz.bench.gpu_plan import Bodies
    from specviz.engine import Pair

_MET = {True: "yes", False: "no", None: "not measured"}
_KERNELS = "TRITON_CACHE_DIR"
_VISIT = ("first_round_seconds", "first_visit_seconds")  # shown last


def measure_gpu(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    from specviz.bench.gpu_bench import run_gpu_bench
    from specviz.bench.gpu_plan import REPEATS, gpu_plan
    from specviz.engine import load_pair

    spec = _spec(options)
    plan = gpu_plan(
        bodies=options.bodies,
        contexts=options.contexts,
        gammas=options.gammas,
        repeats=options.repeats or REPEATS,
        quick=options.quick,
    )

    def load(bodies: Bodies) -> Pair:
        return load_pair(_with_bodies(spec, bodies), progress=progress_in_lines(say))

    say("timing a first visit")  # first, while the device is empty
    figures, notices = _timed_visit(spec, plan.bodies[-1])
    result = run_gpu_bench(load, plan, say, figures)
    return result | {"notices": [*result["notices"], *notices]}


def _spec(options: argparse.Namespace) -> PairSpec:
    """Return the pair, by default on the GPU; raise DeviceError if that GPU is missing."""
    if (options.target_body, options.draft_body) != (BENCH_BODY, NO_BODY):
        raise ConfigError(
            "--gpu does not use --target-body and --draft-body.",
            remedy="Replace them with --bodies, such as --bodies 1B/8B.",
        )
    spec = spec_from(options)
    on_gpu = spec.device == "auto" or spec.device.startswith("cuda")
    if on_gpu and not _has_cuda():
        raise DeviceError(
            "bench --gpu needs a CUDA device, but torch finds none.",
            remedy="Run it on a machine with an NVIDIA GPU, its driver, and a build of torch for "
            "CUDA; to try the command alone, add --device cpu --bodies none/10M.",
        )
    if not on_gpu:
        return replace(spec, step=GRAPHED if spec.step == "auto" else spec.step)
    return replace(spec, device="cuda" if spec.device == "auto" else spec.device)


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _with_bodies(spec: PairSpec, bodies: Bodies) -> PairSpec:
    return replace(spec, target_body=bodies.target, draft_body=bodies.draft)


def _timed_visit(spec: PairSpec, bodies: Bodies) -> tuple[tuple[GpuFigure, ...], tuple[str, ...]]:
    """Return the times of a first visit to the dashboard, or a notice if it failed."""
    from specviz.bench.gpu_goals import GpuFigure

    try:
        with _no_compiled_kernels():
            visit = first_visit(_with_bodies(spec, bodies))
    except SpecvizError as error:
        return (), (f"The first visit to the dashboard at sizes {bodies} failed. {error}",)
    seconds = zip(_VISIT, (visit.first_round, visit.verdict), strict=True)
    return tuple(GpuFigure(name=n, value=v, bodies=str(bodies)) for n, v in seconds), ()


@contextmanager
def _no_compiled_kernels() -> Iterator[None]:
    """In the ``with`` block, let new processes compile all Triton kernels, as on a new machine."""
    before = os.environ.get(_KERNELS)
    with TemporaryDirectory() as folder:
        os.environ[_KERNELS] = folder
        try:
            yield
        finally:
            del os.environ[_KERNELS]
            if before is not None:
                os.environ[_KERNELS] = before


def render_gpu_bench(painter: Painter, result: Mapping[str, Any]) -> str:
    """Render the goals, the values by simulated size and context, the lanes and the first visit."""
    figures = result["figures"]
    blocks = [table(painter, [_goal_row(each) for each in result["asked"]])]
    for bodies, context in dict.fromkeys((each["bodies"], each["context"]) for each in figures):
        here = [each for each in figures if (each["bodies"], each["context"]) == (bodies, context)]
        if context is not None:
            read = _value(figures, "bandwidth", bodies)
            title = (
                f"{bodies}, {context} tokens; memory bandwidth, measured by summing an array: "
                f"{SIZE.shown(read)}/s"
            )
            blocks.append(INDENT + one_line(title) + "\n" + table(painter, _by_gamma(here)))
    blocks += [table(painter, result[name]) for name in ("rows", "divergences") if result[name]]
    if result["notices"]:
        blocks.append("\n".join(INDENT + one_line(each) for each in result["notices"]))
    visit = {name: each["value"] for name in _VISIT for each in figures if each["name"] == name}
    blocks += [table(painter, value_rows("first visit", visit))] if visit else []
    return "\n\n".join([*blocks, *machine_lines(painter, result["environment"])])


def _goal_row(row: Mapping[str, Any]) -> dict[str, Any]:
    place = (row["bodies"], row["context"] and f"{row['context']} tokens", _gamma(row["gamma"]))
    return {
        "goal": row["asked"],
        "at least": row["at_least"],
        "at most": row["at_most"],
        "bodies": row["for_bodies"] or "all",
        "measured": row["measured"],
        "95 % from": row["low"],
        "to": row["high"],
        "worst at": ", ".join(each for each in place if each) or UNKNOWN,
        "met": _MET[row["met"]],
    }


def _by_gamma(figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return table rows: one per measured value, with a column per γ and for "any γ"."""
    rows: dict[str, dict[str, Any]] = {}
    for each in figures:
        row = rows.setdefault(each["name"], {"figure": each["name"]})
        row[_gamma(each["gamma"]) or "any γ"] = _with_interval(each)
    return list(rows.values())


def _gamma(gamma: int | None) -> str:
    return "" if gamma is None else f"γ {gamma}"


def _with_interval(figure: Mapping[str, Any]) -> str:
    value, low, high = (figure[name] for name in ("value", "low", "high"))
    if value is None:
        return UNKNOWN
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}" + ("" if low is None or high is None else f" ({low:.3f} to {high:.3f})")


def _value(figures: Sequence[Mapping[str, Any]], name: str, bodies: str) -> float | None:
    """Return the first value called ``name`` at these simulated sizes, or None."""
    found = (each["value"] for each in figures if (each["name"], each["bodies"]) == (name, bodies))
    return next(found, None)
