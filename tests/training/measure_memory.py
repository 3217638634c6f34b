"""Memory of a training: ``python -m tests.training.measure_memory [--kind KIND] [--tokens N]``.

Runs ``python -m specviz train`` for SmolLM2-135M-Instruct with a store of a million tokens, and
prints the highest resident memory in each stage. Memory depends on sizes only, so the texts of the
store come from the documentation, and most of its hidden states are random numbers. The command
reads all texts, computes the states of the last files, and then trains for some steps. With
``--write``, it begins with an empty folder instead, and is stopped after that many seconds of
writing texts. Needs `make chat`, and as much disk as the store.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import psutil
import torch

from specviz import ASSETS
from specviz.engine import load_pair
from specviz.record.pairs import CHAT_PAIR, PairSpec
from specviz.training.drafts.estimate import PLACES
from specviz.training.drafts.numbered_files import NumberedFiles
from specviz.training.drafts.plan import KINDS, DraftKind
from specviz.training.drafts.written_texts import BATCH, STATES_OF

LONGEST = 512  # tokens of a text
COMPUTED = 2  # files of hidden states that the command computes itself
WIDTH = 576
STAGES = ("the target writes texts", "computing hidden states", "training")


def main(kind: DraftKind, tokens: int, steps: int, write: float, folder: Path) -> None:
    count = tokens // LONGEST
    if not write:
        fill(folder, count, PLACES if kind == "eagle3" else 0)
    words = [
        *(sys.executable, "-m", "specviz", "train", "--target", CHAT_PAIR, "--out", str(folder)),
        *("--kind", kind, "--texts", str(count), "--longest", str(LONGEST)),
        *("--steps", str(steps), "--task-share", "0.5"),
    ]
    print(" ".join(words[1:]), flush=True)
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        highest = watched(process, folder / "said", write)
    print((folder / "said").read_text()[-600:])
    for stage, found in highest.items():
        print(f"{stage or 'before'}: {found / 1e9:.2f} GB resident at most", flush=True)


def fill(folder: Path, count: int, places: int) -> None:
    """Write texts and hidden states of the right sizes."""
    texts, states = NumberedFiles(folder, "texts"), NumberedFiles(folder, "hidden")
    stream = token_stream()
    for number in range(-(-count // BATCH)):
        size = min(BATCH, count - number * BATCH)
        written = torch.ones(size, LONGEST, dtype=torch.bool)
        written[:, :32] = False
        ids = torch.stack([next(stream) for _ in range(size)])
        texts.write(
            number,
            {
                "ids": ids.flatten().int(), "written": written.flatten(),
                "lengths": torch.full((size,), LONGEST), "ended": torch.ones(size).bool(),
            },
        )  # fmt: skip
    rows = STATES_OF * LONGEST
    for number in range(count // STATES_OF - COMPUTED):
        made = {"final": torch.randn(rows, WIDTH).half(), "log_sum": torch.full((rows,), 20.0)}
        made["states"] = torch.randn(rows, WIDTH * places).half()
        states.write(number, made | {"best": torch.randint(49_000, (rows,)).int()})


def token_stream() -> Iterator[torch.Tensor]:
    """Yield texts of ``LONGEST`` tokens, all different."""
    tokenizer = load_pair(PairSpec(name=CHAT_PAIR, threads=1)).tokenizer
    pages = [each.read_text() for each in sorted((ASSETS / "docs").glob("*.md"))]
    ids = torch.tensor(tokenizer("\n".join(pages))["input_ids"])
    generator = torch.Generator().manual_seed(0)
    while True:
        begin = int(torch.randint(len(ids) - LONGEST, (1,), generator=generator))
        yield torch.cat((ids.new_tensor([1, begin % 40_000]), ids[begin : begin + LONGEST - 2]))


def watched(process: subprocess.Popen[bytes], said: Path, limit: float) -> dict[str, int]:
    """Wait for the process; return the highest resident memory in each stage."""
    highest, started = dict[str, int](), None
    reader = Thread(target=process.wait)
    reader.start()
    while reader.is_alive():
        time.sleep(0.1)
        stage = last_stage(said.read_text())
        if stage and started is None:
            started = time.monotonic()
        try:
            now = psutil.Process(process.pid).memory_info().rss
        except psutil.NoSuchProcess:
            break
        highest[stage] = max(now, highest.get(stage, 0))
        if limit and started is not None and time.monotonic() - started > limit:
            process.terminate()
            break
    reader.join()
    return highest


def last_stage(text: str) -> str:
    places = {stage: text.rfind(f"{stage}:") for stage in STAGES}
    found = max(places, key=lambda each: places[each])
    return found if places[found] >= 0 else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS, default="eagle3")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--write", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="specviz-") as temporary:
        main(given.kind, given.tokens, given.steps, given.write, Path(temporary))
