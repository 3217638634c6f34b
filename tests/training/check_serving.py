"""Trained drafts in real engines: ``python -m tests.training.check_serving [FOLDER]``.

Trains an EAGLE-3 head and a small model for the embedded target, a few minutes each, and exports
them: the head for vLLM and llama.cpp, the small model for llama.cpp. The engines, which ``make
engines`` installs, serve the target with them. Ten greedy prompts must give our text, and our
accepted candidates round by round. FOLDER keeps the trained drafts; a second call uses them again.
Prints figures; exits with 1 if one is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from specviz.engine import Pair, load_pair
from specviz.record.pairs import PairSpec
from specviz.servers import find_server
from specviz.training.drafts.draft_training import train_draft
from specviz.training.drafts.export import export
from specviz.training.drafts.plan import DraftKind, TextPlan, TrainingPlan
from specviz.training.drafts.progress import TrainedDraft
from tests.servers import real_engines
from tests.servers.check_real import SETTINGS, Findings, check_prompts
from tests.servers.real_engines import Drafting

TARGET = real_engines.PAIR / "target"
TEXTS = TextPlan(count=256, longest=192)
STEPS: dict[DraftKind, int] = {"eagle3": 300, "small": 150}
VLLM = ("--no-enable-prefix-caching",)


def main(folder: Path) -> int:
    findings = Findings()
    for kind in STEPS:
        draft = trained(kind, folder / kind)
        pair = pair_with(draft, kind)
        for engine in ("vllm", "llamacpp"):
            if reason := real_engines.missing(engine):
                print(reason)
                continue
            with serving(engine, kind, draft) as address:
                info = find_server(address)
                print(f"{info.title}, {kind}, γ {info.gamma}", flush=True)
                check_prompts(info, pair, SETTINGS, findings)
    return findings.wrong


def trained(kind: DraftKind, folder: Path) -> Path:
    """Train a draft for the embedded target, unless the folder has one; return its folder."""
    if (folder / "draft" / "config.json").is_file():
        return folder / "draft"
    pair = load_pair(PairSpec(threads=1))
    plan = TrainingPlan(
        kind=kind, texts=TEXTS, vocabulary=2048, steps=STEPS[kind], length=128, rate=5e-3
    )
    for value in train_draft(pair, plan, folder):
        if isinstance(value, TrainedDraft):
            accepted = ", ".join(f"{each:.3f}" for each in value.agreeing)
            print(f"{kind}: accepted on held-out texts at temperature 0: {accepted}", flush=True)
    return folder / "draft"


def pair_with(draft: Path, kind: DraftKind) -> Pair:
    head = "eagle" if kind == "eagle3" else ""
    return load_pair(
        PairSpec(threads=1, dtype="float32", target=str(TARGET), draft=str(draft), head=head)
    )


@contextmanager
def serving(engine: str, kind: DraftKind, draft: Path) -> Iterator[str]:
    """Export a draft for an engine, start the engine, and yield its address."""
    with (
        TemporaryDirectory(prefix="specviz-") as temporary,
        _started(engine, kind, draft, Path(temporary)) as address,
    ):
        yield address


def _started(engine: str, kind: DraftKind, draft: Path, out: Path) -> AbstractContextManager[str]:
    if engine == "llamacpp":
        (file,) = export(draft, "gguf", out, target=str(TARGET)).files
        method = "draft-eagle3" if kind == "eagle3" else "draft-simple"
        return real_engines.llamacpp(drafting=Drafting(method=method, place=file))
    if kind == "eagle3":
        out = export(draft, "speculators", out, target=str(TARGET)).folder
        drafting = Drafting(method="eagle3", place=out)
    else:
        drafting = Drafting(method="draft_model", place=draft)
    return real_engines.vllm(drafting=drafting, more=VLLM)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(bool(main(Path(sys.argv[1]))))
    with TemporaryDirectory(prefix="specviz-") as created:
        sys.exit(bool(main(Path(created))))
