"""The options of ``train``."""

from __future__ import annotations

import argparse

from specviz.cli.option_groups import add_hardware, add_json
from specviz.cli.option_kinds import add_file, add_flag, add_number
from specviz.record.bodies import NO_BODY
from specviz.record.pairs import QUANTISED
from specviz.training.drafts.export import HOWS
from specviz.training.drafts.plan import KINDS, TextPlan, TrainingPlan

_TEXTS, _PLAN = TextPlan(), TrainingPlan()


def add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="folder of the training; continues an unfinished training there",
    )
    add_flag(parser, "estimate", "only print what the training would cost")
    parser.add_argument(
        "--export", choices=HOWS,
        help="write the draft into FOLDER/export for SGLang (eagle), vLLM (speculators) or "
        "llama.cpp (gguf), and print the command that serves it; a finished draft is not "
        "trained further",
    )  # fmt: skip
    _add_texts(parser.add_argument_group("texts"))
    _add_training(parser.add_argument_group("training"))
    _add_target(parser.add_argument_group("target"))
    add_json(parser)
    parser.set_defaults(
        pair=None, draft=None, target_body=NO_BODY, draft_body=NO_BODY, draft_weights="auto",
        shared_vocabulary="no", other_target=False, step="auto",
    )  # fmt: skip


def _add_texts(group: argparse._ArgumentGroup) -> None:
    sources = group.add_mutually_exclusive_group()
    add_file(
        sources, "suite",
        "JSONL: the prompts that the target answers; by default, it writes texts without prompts",
    )  # fmt: skip
    add_flag(sources, "presets", "the prompts of the dashboard")
    add_number(group, "texts", _TEXTS.count, "number of texts that the target writes")
    add_number(group, "longest", _TEXTS.longest, "maximum number of tokens per text")
    add_number(group, "turns", _TEXTS.turns, "maximum number of turns per conversation")
    add_number(group, "together", _TEXTS.together, "texts in one pass")
    group.add_argument(
        "--task-share", type=float, metavar="S",
        help="without prompts: share of texts in which a chat model answers a task "
        f"(default: {_TEXTS.task_share:g}; a continued training keeps its share)",
    )  # fmt: skip


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--kind", choices=KINDS, default=_PLAN.kind, help=f"kind of draft (default: {_PLAN.kind})"
    )
    add_number(group, "steps", _PLAN.steps, "steps of the training")
    add_number(
        group, "vocabulary", _PLAN.vocabulary, "number of tokens that the draft can propose; 0: all"
    )
    add_number(
        group, "positions", _PLAN.positions, "number of successive candidates in the training loss"
    )
    add_number(group, "layers", _PLAN.layers, "layers of the draft, if it is a small model")
    add_number(group, "batch", _PLAN.batch, "texts in a step")
    add_number(group, "length", _PLAN.length, "number of tokens that a step uses of each text")
    add_number(group, "seed", _PLAN.seed, "the same seed gives the same draft")
    add_number(group, "rate", _PLAN.rate, "the learning rate", "R")


def _add_target(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--target", metavar="Y",
        help="a name from `models`, a Hub id, a folder or a GGUF file (default: the embedded one)",
    )  # fmt: skip
    group.add_argument(
        "--target-weights", metavar="TYPE", default="auto",
        help=f"auto: as stored; float: in floating point; or {', '.join(QUANTISED)} (default: "
        "auto)",
    )  # fmt: skip
    add_hardware(group)
