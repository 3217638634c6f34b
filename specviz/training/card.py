"""The model cards, written from measured figures and nothing else."""

from __future__ import annotations

from specviz.training.recipe import CONTEXT_LENGTH, Recipe, Schedule, Shape
from specviz.training.report import Report

_DATA = """\
| source | what | licence |
| --- | --- | --- |
| tinystories | TinyStories, training split (Eldan and Li 2023), 12,332 stories | CDLA-Sharing-1.0; models are "Results" and carry no duty |
| childlit | 33 Victorian and Edwardian children's books, ChiLit corpus, from Project Gutenberg | public domain |
| fables | TinyFabulist (klusai): 1,686 children's fables written by Mistral, Qwen2.5, SmolLM2 and Phi-3 models | MIT |
| storybooks | African Storybook, Pratham Books and Book Dash picture books, 736 texts | CC-BY 4.0 or public domain; authors in `../ATTRIBUTION.tsv` |

None of this text is part of the project; only weights and tokenizer are. The weights are
given under the project's licence (MIT)."""

_LIMITS = """\
Short, simple English stories are all it can do. Translation, summarising, code, facts,
arithmetic and other languages are beyond this pair: off-domain prompts are there to show
acceptance fall, not to be answered. It repeats itself, loses the thread, and says things
that are not so. It was made to show speculative decoding on any laptop, not to be useful."""


def target_card(recipe: Recipe, report: Report) -> str:
    return (
        "\n\n".join(
            [
                _head("target", report.target_parameters),
                _shape(recipe.target, "trained on next tokens"),
                _training(recipe),
                "## Data\n\n" + _DATA,
                "## Held-out loss\n\n" + _losses(report),
                "## Samples\n\nUnedited, temperature 0.7, prompt “Once upon a time”, seeds 0 to 4.\n\n"
                + _samples(report),
                "## What it cannot do\n\n" + _LIMITS,
            ]
        )
        + "\n"
    )


def draft_card(recipe: Recipe, report: Report) -> str:
    return (
        "\n\n".join(
            [
                _head("draft", report.draft_parameters),
                _shape(recipe.draft, "distilled from the target's distributions"),
                _training(recipe),
                "## Acceptance along held-out text\n\n" + _agreement(report),
                "## Acceptance by kind of prompt\n\n"
                "Observed, γ 5, 96 tokens to each preset of the kind: α depends on the text.\n\n"
                + _kinds(report),
                "## Data\n\n" + _DATA,
                "## What it cannot do\n\n" + _LIMITS,
            ]
        )
        + "\n"
    )


def _head(role: str, parameters: int) -> str:
    front = "---\nlicense: mit\nlanguage: en\nlibrary_name: transformers\n---"
    return (
        f"{front}\n\n# specviz tinystories: the {role}\n\n{parameters:,} parameters, fp16 on disk."
    )


def _shape(shape: Shape, how: str) -> str:
    return (
        f"Llama architecture, {how}: {shape.layers} layer{'s' if shape.layers > 1 else ''} of width "
        f"{shape.width}, {shape.heads} heads, feed-forward {shape.feed_forward}, tied embeddings, "
        f"{CONTEXT_LENGTH:,} positions, byte-level BPE with 4,096 entries. Draft and target share "
        "the tokenizer. Made to be run as a pair by specviz; each is an ordinary transformers folder."
    )


def _training(recipe: Recipe) -> str:
    return (
        "## Training\n\n"
        f"By `python -m specviz.training`, recipe `{recipe.name}`, seed {recipe.seed}, on one to two "
        f"CPU cores: the target saw {_million(recipe.target_schedule)} million tokens, the draft "
        f"about {_million(recipe.draft_schedule)} million (corpus and text that the target wrote). "
        f"Both ended on sequences of {CONTEXT_LENGTH:,} tokens. Stages, batch sizes, learning "
        "rates and the draft's loss were adjusted between checkpoints while these weights were in "
        "training, by looking at the first 16,384 tokens of the held-out TinyStories slice: so the "
        "figures on that slice are not quite those of unseen text. The recipe holds what came of it "
        "and makes a sibling of this pair, not the same bits."
    )


def _million(schedule: Schedule) -> int:
    return round(sum(s.steps * s.batch * s.length for s in schedule.stages) / 1e6)


def _losses(report: Report) -> str:
    rows = [
        f"| {s.name} | {s.documents} | {s.tokens:,} | {s.target_loss:.3f} | `{s.sha256[:16]}…` |"
        for s in report.sources
    ]
    head = "| source | documents | tokens | nats a token | sha256 of the slice |\n| --- | ---: | ---: | ---: | --- |"
    return _table(head, rows) + (
        "\n\nA document is held out when the first four bytes of its SHA-256 fall in the lowest "
        "2 %; of the few long books of childlit none does. Full hashes: "
        + ", ".join(f"{s.name} `{s.sha256}`" for s in report.sources)
        + ". Reproduce with `python -m specviz.training --evaluate --corpus FOLDER`."
    )


def _agreement(report: Report) -> str:
    rows = [
        f"| {s.name} | {s.acceptance_t1:.3f} | {s.acceptance_t07:.3f} | {s.greedy_agreement:.3f} "
        f"| {s.draft_loss:.3f} | {s.target_loss:.3f} |"
        for s in report.sources
    ]
    head = (
        "| source | expected, T = 1 | expected, T = 0.7 | greedy agreement | draft loss | target loss |"
        "\n| --- | ---: | ---: | ---: | ---: | ---: |"
    )
    return _table(head, rows)


def _kinds(report: Report) -> str:
    rows = [
        f"| {k.kind} | {k.alpha_greedy:.2f} | {k.tau_greedy:.2f} | {k.alpha_t07:.2f} | {k.tau_t07:.2f} |"
        for k in report.kinds
    ]
    head = "| kind | α, greedy | τ, greedy | α, T = 0.7 | τ, T = 0.7 |\n| --- | ---: | ---: | ---: | ---: |"
    return _table(head, rows)


def _samples(report: Report) -> str:
    return "\n\n".join(
        f"**Seed {seed}.**\n\n" + "\n".join(f"> {line}" for line in text.splitlines())
        for seed, text in enumerate(report.samples)
    )


def _table(head: str, rows: list[str]) -> str:
    return "\n".join([head, *rows])
