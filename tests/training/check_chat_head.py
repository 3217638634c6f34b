"""The shipped head in real engines: ``python -m tests.training.check_chat_head``.

vLLM serves SmolLM2-135M-Instruct with its EAGLE-3 head, exported as ``speculators``, and llama.cpp
with the head exported as GGUF; each answers one prompt at a time. Greedy answers to the first chat
prompt of each task must be our texts. In every answer, as many candidates must be accepted as here,
without the last round, which the length limit may cut. Rounds are not compared one by one: engines
report a token whose bytes are no whole character together with the next one. All engines run the
target in float32. ``--quantised``: llama.cpp runs the target as it is stored, and rounds the
activations in its own way; the texts may then differ, and the figures are only printed. ``--all``:
all chat prompts that begin a conversation. Needs `make chat`, and `make engines` or `make rivals`.
Prints figures; exits with 1 if one is wrong.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from specviz.bench.gguf_model import write_model
from specviz.engine import Pair, load_pair
from specviz.engine.loading.gguf_vocabulary import vocabulary_of
from specviz.record.pairs import CHAT_HEAD, PairSpec, chat_file
from specviz.record.prompts import read_chat_prompts
from specviz.record.server_run import ServerInfo, ServerTrace
from specviz.record.trace import Round
from specviz.servers import ask, find_server, rates, read_counters
from specviz.training.drafts.export import export
from tests.servers import real_engines
from tests.servers.check_real import (
    SETTINGS,
    Findings,
    counters_after,
    finished,
    our_rounds,
    same_text,
)
from tests.servers.real_engines import Drafting

GAMMA = 3
Sums = tuple[int, int]  # emitted and accepted tokens
Address = AbstractContextManager[str]


class Serving(Protocol):
    def __call__(self, pair: Pair, folder: Path, *, quantised: bool) -> Address: ...


def main(*, every: bool, quantised: bool) -> int:
    findings = Findings()
    pair = load_pair(
        PairSpec(name=CHAT_HEAD, threads=1, device="cpu", dtype="auto" if quantised else "float32")
    )
    for engine in ("llamacpp",) if quantised else SERVING:
        if reason := real_engines.missing(engine):
            print(reason)
            continue
        with (
            TemporaryDirectory(prefix="specviz-") as folder,
            SERVING[engine](pair, Path(folder), quantised=quantised) as address,
        ):
            info, chosen = find_server(address), prompts(every=every)
            print(f"{info.title}, {CHAT_HEAD}, γ {GAMMA}, {len(chosen)} prompts", flush=True)
            check(info, pair, chosen, findings)
    return 0 if quantised else findings.wrong


def check(info: ServerInfo, pair: Pair, chosen: list[str], findings: Findings) -> None:
    before = read_counters(info)
    traces = [finished(ask(info, prompt, replace(SETTINGS, chat=True))) for prompt in chosen]
    after = counters_after(info, before, sum(trace.num_tokens for trace in traces))
    ours = [our_rounds(pair, trace, GAMMA) for trace in traces]
    same = [same_text(pair, trace) for trace in traces]
    findings.check("greedy text equals ours", sum(same), len(same))
    sums = [sums_of(*each) for each in zip(traces, ours, strict=True)]
    equal = [theirs == mine for theirs, mine in sums]
    findings.check("as many tokens emitted and accepted as ours", sum(equal), len(equal))
    drafts = sum(len(rounds) - 1 for rounds in ours)
    theirs, mine = (sum(each[1] for each in side) / drafts for side in zip(*sums, strict=True))
    print(f"  {drafts} drafts: {theirs:.3f} accepted per draft, ours {mine:.3f}")
    print(f"  by its counters, with the last rounds: {rates(before, after)}")


def sums_of(trace: ServerTrace, ours: list[Round]) -> tuple[Sums, Sums]:
    """Return the emitted and accepted tokens of both, in all rounds but the last.

    The engine's first token comes from the prompt, and our rounds follow it.
    """
    whole = ours[:-1]
    mine = sum(len(each.emitted) for each in whole), sum(each.num_accepted for each in whole)
    emitted = accepted = 0
    for each in trace.rounds[1:]:
        if emitted >= mine[0]:
            break
        emitted += each.num_tokens
        accepted += each.accepted or 0
    return (emitted, accepted), mine


def prompts(*, every: bool) -> list[str]:
    """Return chat prompts: the first of each task, or all that begin a conversation."""
    known = [each for each in read_chat_prompts() if not each.before]
    firsts = {each.kind: each for each in reversed(known)}
    return [each.text for each in known if every or firsts[each.kind] is each]


def vllm(pair: Pair, folder: Path, *, quantised: bool) -> Address:
    """Start vLLM with the chat model and the exported head."""
    del pair, quantised
    real_engines.write_chat_model(target := folder / "target")
    head = export(real_engines.chat_head(), "speculators", folder / "head", target=str(target))
    drafting = Drafting(method="eagle3", place=head.folder)
    return real_engines.vllm(
        model=target, drafting=drafting, gamma=GAMMA, more=("--no-enable-prefix-caching",)
    )


def llamacpp(pair: Pair, folder: Path, *, quantised: bool) -> Address:
    """Start llama.cpp with the chat model and the exported head."""
    stored = chat_file()
    assert stored is not None, "make chat installs the chat model"
    file, *_ = export(real_engines.chat_head(), "gguf", folder, target=str(stored)).files
    target = stored if quantised else folder / "target.gguf"
    if not quantised:
        write_model(pair.target, pair.vocabulary, target, vocabulary_of(stored))
    drafting = Drafting(method="draft-eagle3", place=file)
    return real_engines.llamacpp(model=target, drafting=drafting, gamma=GAMMA)


SERVING: dict[str, Serving] = {"vllm": vllm, "llamacpp": llamacpp}


if __name__ == "__main__":
    sys.exit(bool(main(every="--all" in sys.argv, quantised="--quantised" in sys.argv)))
