"""The shipped head in llama.cpp: ``python -m tests.training.check_chat_head``.

llama.cpp serves SmolLM2-135M-Instruct with its EAGLE-3 head, exported as GGUF, with one slot.
Greedy answers to the first chat prompt of each task must be our texts. In every answer, as many
candidates must be accepted as here, without the last round, which the length limit may cut. Rounds
are not compared one by one: llama.cpp reports a token whose bytes are no whole character together
with the next one. Both engines run the target in float32, because each rounds the activations of
quantised products in its own way. ``--quantised``: the target as it is stored; the texts may then
differ, and the figures are only printed. ``--all``: all chat prompts that begin a conversation.
Needs `make chat` and `make rivals`. Prints figures; exits with 1 if one is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from specviz.bench.gguf_model import write_model
from specviz.engine import Pair, load_pair
from specviz.engine.loading.gguf_vocabulary import vocabulary_of
from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, PairSpec, chat_file, pairs_folder
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


def main(*, every: bool, quantised: bool) -> int:
    if reason := real_engines.missing("llamacpp"):
        print(reason)
        return 1
    findings = Findings()
    pair = load_pair(
        PairSpec(name=CHAT_HEAD, threads=1, device="cpu", dtype="auto" if quantised else "float32")
    )
    with serving(pair, quantised=quantised) as address:
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

    llama.cpp's first token comes from the prompt, and our rounds follow it.
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


@contextmanager
def serving(pair: Pair, *, quantised: bool) -> Iterator[str]:
    """Export the head, start llama.cpp with it, and yield its address."""
    stored = chat_file()
    assert stored is not None, "make chat installs the chat model"
    head = pairs_folder() / CHAT_PAIR / CHAT_HEAD.removeprefix(f"{CHAT_PAIR}-")
    with TemporaryDirectory(prefix="specviz-") as folder:
        file, *_ = export(head, "gguf", Path(folder), target=str(stored)).files
        target = stored if quantised else Path(folder, "target.gguf")
        if not quantised:
            write_model(pair.target, pair.vocabulary, target, vocabulary_of(stored))
        drafting = Drafting(method="draft-eagle3", place=file)
        with real_engines.llamacpp(model=target, drafting=drafting, gamma=GAMMA) as address:
            yield address


if __name__ == "__main__":
    sys.exit(bool(main(every="--all" in sys.argv, quantised="--quantised" in sys.argv)))
