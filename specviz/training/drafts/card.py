"""The model card of a trained draft: data, settings, results, the target's licence, and usage.

The card states only what was measured, and what the plan and the target's files say. The card of
the embedded pair is in ``specviz/training/card.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz.errors import ModelFileError, TrainingError
from specviz.formats.gguf_header import read_header
from specviz.store.files import write_file
from specviz.training.card_text import card_of, table
from specviz.training.drafts.export import CARD
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.training.drafts.progress import TextFigures, TrainedDraft
from specviz.training.drafts.serving import ServingCommand
from specviz.values import Value

NOT_STATED = "not stated"
_KINDS = {
    "eagle3": "EAGLE-3 head",
    "medusa": "Medusa heads",
    "small": "Small draft model",
}
_LICENCE = re.compile(r"\w[\w.+ -]{0,59}")
_FRONT = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^(license|license_name):[ \t]*(.+?)[ \t]*$", re.MULTILINE)
_MOST = 1 << 16  # characters of a card that are read
_OPTIONS = ("kind", "vocabulary", "positions", "layers", "steps", "batch", "length", "rate", "seed")
_UNUSUAL = re.compile(r"[^\w.+/:@ -]")


class TargetFacts(Value):
    name: str
    licence: str = NOT_STATED  # as the target's files state it
    chats: bool = False  # whether it has a chat template


def licence_of(place: str | Path) -> str:
    """Return the licence that a target's card or GGUF metadata states, or ``NOT_STATED``.

    Args:
        place: The target's folder or GGUF file.
    """
    path = Path(place).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        try:
            stated = read_header(path).text("general.license")
        except ModelFileError:
            stated = ""
    else:
        stated = _licence_in_card(path / CARD)
    return stated if _LICENCE.fullmatch(stated) else NOT_STATED


def _licence_in_card(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            front = _FRONT.match(file.read(_MOST))
    except OSError:
        return ""
    found = dict(_LINE.findall(front[1])) if front else {}
    name = found.get("license_name") if found.get("license") == "other" else None
    return (name or found.get("license", "")).strip("\"'")


def write_draft_card(
    plan: TrainingPlan,
    texts: TextFigures,
    result: TrainedDraft,
    target: TargetFacts,
    commands: Sequence[ServingCommand] = (),
) -> Path:
    """Write the model card into the draft's folder; return its path.

    Raises:
        TrainingError: The file cannot be written.
    """
    path = Path(result.folder) / CARD
    try:
        write_file(path, draft_card(plan, texts, result, target, commands))
    except OSError as error:
        raise TrainingError(
            f"{path.name} cannot be written: {error.strerror or error}.",
            remedy="Free some space, or choose another folder.",
        ) from None
    return path


def draft_card(
    plan: TrainingPlan,
    texts: TextFigures,
    result: TrainedDraft,
    target: TargetFacts,
    commands: Sequence[ServingCommand] = (),
) -> str:
    """Return the model card in Markdown.

    Args:
        plan: The plan that was carried out.
        texts: The statistics of the texts that the target wrote.
        result: The draft and its acceptance on held-out texts.
        target: The target's name and licence.
        commands: The commands that serve the draft in other engines.
    """
    return card_of(
        _head(plan, target),
        "## Data\n\n" + _data(plan, texts, chats=target.chats),
        "## Training\n\n" + _training(plan, result, target),
        "## Acceptance on held-out texts\n\n" + _acceptance(result),
        "## Licence\n\n" + _licence(target),
        "## Use\n\n" + _use(plan, target, commands),
    )


def _head(plan: TrainingPlan, target: TargetFacts) -> str:
    stated = [] if target.licence == NOT_STATED else [f"license: {target.licence.lower()}"]
    front = ["---", *stated, "tags: [speculative-decoding]", "---"]
    title = f"# {_KINDS[plan.kind]} for {_code(target.name)}"
    does = "It drafts tokens for this target in speculative decoding, and has no other use."
    return "\n".join(front) + f"\n\n{title}\n\n{does} The weights are in half precision."


def _data(plan: TrainingPlan, texts: TextFigures, *, chats: bool) -> str:
    missing = plan.texts.count - texts.texts - texts.repeated
    unanswered = f"{missing:,} texts ended without an answer and were left out. " if missing else ""
    return (
        f"The target wrote {texts.texts:,} texts ({texts.tokens:,} tokens) "
        f"{_source(plan.texts, chats=chats)}. Half of the texts are greedy, half are drawn at "
        "temperatures from 0.8 to 1. A text has at most "
        f"{plan.texts.longest:,} tokens. The seed is {plan.texts.seed}. {texts.repeated:,} "
        f"repetitions of another text were left out. {unanswered}A text is held out if the hash "
        "of its first tokens is low.\n\n"
        + table(
            "| | share |\n| --- | ---: |",
            [
                f"| texts that the target ended itself | {_percent(texts.ended)} |",
                f"| repeated sequences of four tokens | {_percent(texts.repetition)} |",
                f"| tokens that the draft can propose | {_percent(texts.covered)} |",
            ],
        )
    )


def _source(plan: TextPlan, *, chats: bool) -> str:
    if plan.prompts:
        return f"as answers to {len(plan.prompts):,} prompts"
    if not chats or not plan.task_share:
        return "on its own, without prompts"
    return (
        f"on its own. About {100 * plan.task_share:.0f} % of the texts answer tasks, most of which "
        "are about a passage that the target wrote first. In the other texts, the target wrote "
        "both sides of a conversation"
    )


def recipe(plan: TrainingPlan, target: str) -> str:
    """Return the command that trains the draft again; options at their default are left out."""
    named = {"texts": "count"}
    named |= {each: each for each in ("longest", "turns", "together", "task_share")}
    chosen = {option: (plan.texts, name) for option, name in named.items()}
    chosen |= {name: (plan, name) for name in _OPTIONS}
    words = [f"python -m specviz train --target {_plain(target)} --out FOLDER"]
    if plan.texts.prompts:
        words.append("--suite PROMPTS.jsonl")
    for option, (values, name) in chosen.items():
        value = getattr(values, name)
        if value != getattr(type(values)(), name):
            words.append(f"--{option.replace('_', '-')} {value}")
    return " ".join(words)


def _training(plan: TrainingPlan, result: TrainedDraft, target: TargetFacts) -> str:
    rows: list[tuple[str, Any]] = [
        ("vocabulary", f"{plan.vocabulary:,} most frequent tokens" if plan.vocabulary else "all"),
        ("positions in the loss", plan.positions),
        ("steps", f"{plan.steps:,} (best weights: step {result.step:,})"),
        ("texts in a step", plan.batch),
        ("tokens of each text", plan.length),
        ("tokens read", f"{plan.tokens:,}"),
        ("learning rate", f"{plan.rate:g}"),
        ("overlap loss from", f"{100 * plan.overlap_from:g} % of the steps"),
        ("seed", plan.seed),
    ]
    if plan.kind == "small":
        rows.insert(0, ("layers", plan.layers))
    return (
        "The loss is the cross-entropy with the target's distribution, and later 1 − Σ min(draft, "
        "target). The weights are initialised from the target. The same texts, settings and seed "
        f"give the same weights:\n\n```\n{recipe(plan, target.name)}\n```\n\n"
        + table("| setting | |\n| --- | ---: |", [f"| {name} | {value} |" for name, value in rows])
    )


def _acceptance(result: TrainedDraft) -> str:
    rows = [
        f"| {number} | {drawn:.3f} | {greedy:.3f} |"
        for number, (drawn, greedy) in enumerate(
            zip(result.accepted, result.agreeing, strict=True), 1
        )
    ]
    return (
        table("| position | temperature 1 | temperature 0 |\n| ---: | ---: | ---: |", rows)
        + "\n\nAcceptance probability of a candidate if the candidates before it in the round "
        "were accepted, computed along texts of the same kind as the training texts. Other texts "
        "give other values."
    )


def _licence(target: TargetFacts) -> str:
    if target.licence == NOT_STATED:
        return (
            "The target's files state no licence. The draft was made from the target's weights "
            "and outputs, so look up the terms of the target before you publish it."
        )
    return (
        f"The licence of the target: {_code(target.licence)}. The draft was made from the target's "
        "weights and outputs, so the terms of the target apply to it."
    )


def _use(plan: TrainingPlan, target: TargetFacts, commands: Sequence[ServingCommand]) -> str:
    own = f'python -m specviz run --target {_plain(target.name)} --draft FOLDER "…"'
    parts = [f"In specviz:\n\n```\n{own}\n```"]
    parts += [f"In {each.engine}:\n\n```\n{each.text}\n```" for each in commands]
    whole = "vLLM can load the folder only if {} the whole vocabulary."
    more = {
        "eagle3": "`--export speculators`, `--export eagle` or `--export gguf` writes the head for "
        "vLLM, SGLang or llama.cpp.",
        "small": "`--export gguf` writes the model for llama.cpp. "
        + whole.format("the model proposes"),
        "medusa": whole.format("the heads propose"),
    }
    return "\n\n".join([*parts, more[plan.kind]])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _plain(text: str) -> str:
    """Return a name in which "_" replaces characters that mean something in Markdown or a shell."""
    return _UNUSUAL.sub("_", text)


def _code(text: str) -> str:
    return f"`{_plain(text)}`"
