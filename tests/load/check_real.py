"""Load sweeps of real engines: ``python -m tests.load.check_real [--out FOLDER] NAME…``.

``NAMES`` are vLLM and llama.cpp, which ``make engines`` installs: each with the embedded pair, and
with SmolLM2-135M-Instruct and its EAGLE-3 head. Each sweep is made twice. The two must agree within
their intervals at every number of users, and all tokens with the engines' counters. ``schedule``
checks that vLLM follows the setting that the advice prints. Prints figures; exits with 1 if one is
wrong. The machine should be quiet: it takes 10 to 20 minutes per name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from specviz.figures.load_advice import VLLM_SETTING
from specviz.figures.load_figures import LoadFigures, load_figures
from specviz.figures.load_words import load_words
from specviz.figures.paired import Ratio
from specviz.load.stored import sweep_to_json
from specviz.record.load_run import LoadSettings, LoadSweep
from specviz.record.pairs import chat_file
from specviz.training.drafts.export import export
from tests.load.record_sweep import swept
from tests.servers import real_engines
from tests.servers.check_real import Findings
from tests.servers.real_engines import Drafting

REPETITIONS = 2
STORIES = LoadSettings(levels=(1, 2, 4, 8), seconds=3.0, ramp=1.0, budget=400.0, max_new_tokens=64)
CHATS = LoadSettings(
    levels=(1, 2, 4, 8), seconds=6.0, ramp=3.0, budget=700.0, max_new_tokens=48, chat=True
)
MOST = round(max(STORIES.levels))
SCHEDULE = "schedule"
Addresses = AbstractContextManager[tuple[str, str]]


@contextmanager
def with_and_without(
    start: Callable[..., AbstractContextManager[str]], **speculation: Any
) -> Iterator[tuple[str, str]]:
    """Start an engine twice: with these settings of speculation, and without speculation."""
    with (
        start(at_once=MOST, **speculation) as address,
        start(speculative=False, at_once=MOST) as alone,
    ):
        yield address, alone


@contextmanager
def vllm_chat() -> Iterator[tuple[str, str]]:
    with TemporaryDirectory(prefix="specviz-") as temporary:
        target, out = Path(temporary, "target"), Path(temporary, "head")
        real_engines.write_chat_model(target)
        head = export(real_engines.chat_head(), "speculators", out, target=str(target)).folder
        drafting = Drafting(method="eagle3", place=head)
        start = partial(real_engines.vllm, model=target)
        with with_and_without(start, drafting=drafting, gamma=3) as addresses:
            yield addresses


@contextmanager
def llamacpp_chat() -> Iterator[tuple[str, str]]:
    model = chat_file()
    assert model is not None, "make chat installs the chat model"
    with TemporaryDirectory(prefix="specviz-") as temporary:
        target = Path(temporary, "target")
        real_engines.write_chat_model(target)
        # The second file is the model card.
        head, *_ = export(
            real_engines.chat_head(), "gguf", Path(temporary), target=str(target)
        ).files
        drafting = Drafting(method="draft-eagle3", place=head)
        start = partial(real_engines.llamacpp, model=model)
        with with_and_without(start, drafting=drafting, gamma=3) as addresses:
            yield addresses


def vllm_with_schedule() -> Addresses:
    """Start vLLM so that it speculates for one or two requests, and not for more."""
    settings = {VLLM_SETTING: [[1, 2, real_engines.GAMMA], [3, MOST, 0]]}
    return with_and_without(real_engines.vllm, settings=settings)


NAMES: dict[str, tuple[Callable[[], Addresses], LoadSettings]] = {
    "vllm": (partial(with_and_without, real_engines.vllm), STORIES),
    "llamacpp": (partial(with_and_without, real_engines.llamacpp), STORIES),
    "vllm-chat": (vllm_chat, CHATS),
    "llamacpp-chat": (llamacpp_chat, CHATS),
}


def main(names: list[str], out: Path | None) -> int:
    findings = Findings()
    for name in names:
        if name == SCHEDULE:
            _check_schedule(findings)
            continue
        if reason := real_engines.missing(name.partition("-")[0]):
            print(reason)
            continue
        start, settings = NAMES[name]
        found: list[LoadFigures] = []
        for repetition in range(REPETITIONS):  # both servers are started anew
            with start() as (address, alone):
                sweep = swept(address, alone, settings)
            found.append(load_figures(sweep))
            print(f"{sweep.lanes[-1].info.title}, {name}, sweep {repetition + 1}", flush=True)
            _report(sweep, found[-1], findings)
            if out is not None:
                (out / f"{name}-{repetition + 1}.json").write_text(sweep_to_json(sweep))
        _compare(found[0], found[1], findings)
    return findings.wrong


def _report(sweep: LoadSweep, figures: LoadFigures, findings: Findings) -> None:
    for each in figures.levels:
        tau = each.acceptance.tau
        print(
            f"  lane {each.lane}, {each.level:g} users: {each.tokens_per_second:.1f} tokens/s"
            + (f", τ {tau:.2f}" if tau is not None and each.speedup is not None else "")
            + (f", speedup {_words(each.speedup)}" if each.speedup is not None else "")
        )
    for line in load_words(sweep, figures).all:
        print(f"    {line}")
    fine = [each for each in figures.blocks if each.totals.agree]
    findings.check("blocks whose tokens agree with the counters", len(fine), len(figures.blocks))
    whole = [each for each in figures.blocks if not each.failures]
    findings.check("blocks without a failure", len(whole), len(figures.blocks))


def _check_schedule(findings: Findings) -> None:
    with vllm_with_schedule() as (address, alone):
        found = load_figures(swept(address, alone, replace(STORIES, levels=(1, MOST))))
    shares = {
        each.level: (each.acceptance.drafted or 0) / each.totals.received
        for each in found.levels
        if each.lane == 1
    }
    print(f"{SCHEDULE}: drafted per token, by users: {shares}", flush=True)
    findings.check("levels that follow the schedule", (shares[1] > 1) + (shares[MOST] < 0.05), 2)


def _words(speedup: Ratio) -> str:
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}"
    return f"{speedup.value:.2f} ({speedup.low:.2f} to {speedup.high:.2f})"


def _compare(first: LoadFigures, second: LoadFigures, findings: Findings) -> None:
    """Check that the intervals of both sweeps overlap at every level."""
    pairs = [(one.speedup, second.at(one.lane, one.level)) for one in first.levels if one.speedup]
    agree = [
        one.low <= other.speedup.high and other.speedup.low <= one.high  # pyright: ignore
        for one, other in pairs
        if other is not None and other.speedup is not None
    ]
    findings.check("levels at which both sweeps agree", sum(agree), len(pairs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*NAMES, SCHEDULE)))
    given = parser.parse_args()
    if unknown := set(given.names) - {*NAMES, SCHEDULE}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    sys.exit(bool(main(given.names or [*NAMES, SCHEDULE], given.out)))
