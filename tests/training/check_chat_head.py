"""The shipped head in llama.cpp: ``python -m tests.training.check_chat_head``.

llama.cpp serves SmolLM2-135M-Instruct with its EAGLE-3 head, exported as GGUF, with one slot.
Greedy answers to the first chat prompt of each task must be our texts, and the accepted candidates
ours round by round. Both engines run the target in float32, because each rounds the activations of
quantised products in its own way. ``--quantised``: the target as it is stored; the texts may then
differ, and the figures are only printed. ``--all``: all chat prompts that begin a conversation.
Needs `make chat` and `make rivals`. Prints figures; exits with 1 if one is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from specviz.bench.gguf_model import write_model
from specviz.engine import Pair, load_pair
from specviz.engine.loading.gguf_vocabulary import vocabulary_of
from specviz.engine.model.chat_template import render_chat
from specviz.record.conversations import Conversation
from specviz.record.pairs import CHAT_HEAD, CHAT_PAIR, PairSpec, chat_file, pairs_folder
from specviz.record.prompts import read_chat_prompts
from specviz.servers import find_server
from specviz.training.drafts.export import export
from tests.servers import real_engines
from tests.servers.check_real import SETTINGS, Findings, check_prompts
from tests.servers.real_engines import Drafting

GAMMA = 3


def main(*, every: bool, quantised: bool) -> int:
    if reason := real_engines.missing("llamacpp"):
        print(reason)
        return 1
    findings = Findings()
    pair = load_pair(
        PairSpec(name=CHAT_HEAD, threads=1, device="cpu", dtype="auto" if quantised else "float32")
    )
    with serving(pair, quantised=quantised) as address:
        info, chosen = find_server(address), prompts(pair, every=every)
        print(f"{info.title}, {CHAT_HEAD}, γ {GAMMA}, {len(chosen)} prompts", flush=True)
        check_prompts(info, pair, SETTINGS, findings, chosen, GAMMA)
    return 0 if quantised else findings.wrong


def prompts(pair: Pair, *, every: bool) -> list[str]:
    """Return chat prompts in the chat template: the first of each task, or all that begin a chat.

    As texts, they are answered token by token. In chats, llama.cpp joins tokens whose bytes are no
    whole character, and their rounds with them.
    """
    known = [each for each in read_chat_prompts() if not each.before]
    firsts = {each.kind: each for each in reversed(known)}
    return [
        render_chat(pair.tokenizer, CHAT_PAIR, Conversation(before=(), text=each.text).messages)
        for each in known
        if every or firsts[each.kind] is each
    ]


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
