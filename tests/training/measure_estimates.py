"""Predicted and measured costs of trainings: ``python -m tests.training.measure_estimates``.

Trains a draft of each kind for SmolLM2-135M-Instruct, with few texts and steps, and prints what the
command predicts beside what was measured: the time of each stage, disk space, and the cost of a
draft step. The times are those of the processor, with one thread, so other work on the machine
changes them little. Arguments: kinds of drafts; by default all. ``--embedded``: for the embedded
target. ``--float``: the target in floating point. ``--texts``, ``--longest``, ``--steps``: of the
training. Needs `make chat`. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from specviz.engine import body_room, load_pair
from specviz.engine.decoding.costs import measure_step_costs
from specviz.local_models.naming import with_head
from specviz.record.drafters import first_method
from specviz.record.pairs import CHAT_PAIR, PairSpec
from specviz.record.run_config import RunConfig
from specviz.training.drafts.draft_training import train_draft
from specviz.training.drafts.estimate import estimate, measured_arithmetic
from specviz.training.drafts.plan import KINDS, DraftKind, TextPlan, TrainingPlan
from specviz.training.drafts.progress import Collecting, Computing, Trained

CONTEXT = 256
WRITING, COMPUTING, TRAINING = "writing", "computing", "training"


def main(kinds: list[DraftKind], spec: PairSpec, texts: TextPlan, steps: int) -> None:
    for kind in kinds:
        plan = TrainingPlan(kind=kind, texts=texts, steps=steps, length=min(256, texts.longest))
        with TemporaryDirectory(prefix="specviz-") as temporary:
            compare(plan, spec, Path(temporary))


def compare(plan: TrainingPlan, spec: PairSpec, folder: Path) -> None:
    found = estimate(plan, body_room(spec), measured_arithmetic())
    assert found is not None
    pair = load_pair(spec)
    seconds, tokens, last = {WRITING: 0.0, COMPUTING: 0.0}, 0, time.process_time()
    steps = list[float]()
    for value in train_draft(pair, plan, folder):
        now = time.process_time()
        if isinstance(value, Collecting):
            seconds[WRITING] += now - last
            tokens = value.tokens
        if isinstance(value, Computing):
            seconds[COMPUTING] += now - last
        if isinstance(value, Trained):
            steps.append(now - last)
        last = now
    seconds[TRAINING] = median(steps[1:]) * plan.steps
    predicted = {
        WRITING: found.writing, COMPUTING: found.computing, TRAINING: found.training,
    }  # fmt: skip
    whole = sum(each.stat().st_size for each in folder.glob("texts-*"))
    stored = sum(each.stat().st_size for each in folder.glob("hidden-*"))
    most = plan.texts.count * plan.texts.longest
    print(f"{plan.kind}, {spec.target or spec.name or 'embedded'}: {found.words}", flush=True)
    for stage, each in predicted.items():
        print(f"  {stage}: predicted {each:.1f} s, measured {seconds[stage]:.1f} s", flush=True)
    print(
        f"  {tokens:,} tokens written of at most {most:,}; arithmetic {measured_arithmetic():.3g}"
    )
    disk = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    print(
        f"  disk: predicted at most {found.disk_bytes / 1e6:.0f} MB, measured {disk / 1e6:.0f} MB "
        f"(texts {whole / 1e6:.1f}, states {stored / 1e6:.1f})"
    )
    size = (folder / "draft" / "model.safetensors").stat().st_size
    print(f"  weights: predicted {found.draft_bytes / 1e6:.1f} MB, measured {size / 1e6:.1f} MB")
    _print_step_costs(spec, folder / "draft", found.c)


def _print_step_costs(spec: PairSpec, draft: Path, predicted: float) -> None:
    own = with_head(
        PairSpec(target=spec.target_place, draft=str(draft), threads=spec.threads, dtype=spec.dtype)
    )
    pair = load_pair(own)
    config = RunConfig(drafter=first_method(pair.draft_kind).name, gamma=3, temperature=0.0)
    costs = measure_step_costs(pair, config, contexts=(CONTEXT,))
    assert costs is not None
    step, first = costs.target_step(CONTEXT), costs.draft_step(CONTEXT)
    later = costs.draft_phase(CONTEXT, 3) - costs.draft_phase(CONTEXT, 2)
    print(
        f"  c: predicted {predicted:.3f}, measured {later / step:.3f} (first candidate "
        f"{first / step:.3f}); target step {1e3 * step:.2f} ms, draft step {1e3 * later:.2f} ms, "
        f"v {costs.verify(CONTEXT, 4) / step:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--float", action="store_true")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--longest", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8)
    given = parser.parse_args()
    chosen: list[DraftKind] = [each for each in KINDS if each in (given.kinds or KINDS)]
    main(
        chosen,
        PairSpec(
            name=None if given.embedded else CHAT_PAIR, threads=1,
            dtype="float32" if given.float else "auto",
        ),
        TextPlan(count=given.texts, longest=given.longest),
        given.steps,
    )  # fmt: skip
