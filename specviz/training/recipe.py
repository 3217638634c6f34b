"""What is trained, on what mixture and for how long: plain values, no code."""

from __future__ import annotations

from dataclasses import dataclass

CONTEXT_LENGTH = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A Llama-shaped model with tied embeddings."""

    layers: int
    width: int
    heads: int
    feed_forward: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """``steps`` batches of ``batch`` sequences, drawn from the sources by weight."""

    steps: int
    batch: int
    length: int
    sources: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Stages under one learning rate: warm-up, plateau, then a straight line to zero."""

    stages: tuple[Stage, ...]
    matrix_rate: float  # Muon, for the matrices inside the layers
    vector_rate: float  # AdamW, for embeddings and norms
    warmup_steps: int
    decay_share: float

    @property
    def total_steps(self) -> int:
        return sum(stage.steps for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnText:
    """Text that the target writes itself, for the draft to learn from."""

    sequences: int
    length: int
    temperatures: tuple[float, ...]
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that decides what the pair becomes, the corpus and the device aside."""

    name: str
    vocabulary: int
    target: Shape
    draft: Shape
    target_schedule: Schedule
    own_text: OwnText
    draft_schedule: Schedule
    seed: int = 0


OWN_TEXT = "own text"  # the name of the target's own writing among the sources

_MIXED = {"tinystories": 0.62, "fables": 0.12, "storybooks": 0.08, "childlit": 0.18}
_STORIES = {"tinystories": 0.84, "fables": 0.06, "storybooks": 0.04, "childlit": 0.06}
_DISTIL = {
    OWN_TEXT: 0.4,
    "tinystories": 0.5,
    "fables": 0.03,
    "storybooks": 0.03,
    "childlit": 0.04,
}

CPU = Recipe(
    name="cpu",
    vocabulary=4096,
    target=Shape(layers=12, width=192, heads=6, feed_forward=512),
    draft=Shape(layers=1, width=192, heads=6, feed_forward=512),
    target_schedule=Schedule(
        stages=(
            Stage(steps=900, batch=32, length=256, sources=_MIXED),
            Stage(steps=350, batch=32, length=256, sources=_STORIES),
            Stage(steps=100, batch=4, length=CONTEXT_LENGTH, sources=_STORIES),
        ),
        matrix_rate=5e-3,
        vector_rate=4e-3,
        warmup_steps=60,
        decay_share=0.6,
    ),
    own_text=OwnText(sequences=4096, length=256, temperatures=(0.0, 0.3, 0.7, 1.0), batch=128),
    draft_schedule=Schedule(
        stages=(
            Stage(steps=1200, batch=16, length=256, sources=_DISTIL),
            Stage(steps=400, batch=8, length=512, sources=_DISTIL),
            Stage(steps=150, batch=2, length=CONTEXT_LENGTH, sources=_DISTIL),
        ),
        matrix_rate=5e-3,
        vector_rate=4e-3,
        warmup_steps=30,
        decay_share=0.7,
    ),
)

GPU = Recipe(
    name="gpu",
    vocabulary=4096,
    target=Shape(layers=12, width=320, heads=10, feed_forward=864),
    draft=Shape(layers=1, width=320, heads=10, feed_forward=864),
    target_schedule=Schedule(
        stages=(
            Stage(steps=4000, batch=128, length=256, sources=_MIXED),
            Stage(steps=2000, batch=128, length=256, sources=_STORIES),
            Stage(steps=400, batch=16, length=CONTEXT_LENGTH, sources=_STORIES),
        ),
        matrix_rate=5e-3,
        vector_rate=4e-3,
        warmup_steps=100,
        decay_share=0.6,
    ),
    own_text=OwnText(sequences=32768, length=256, temperatures=(0.0, 0.3, 0.7, 1.0), batch=1024),
    draft_schedule=Schedule(
        stages=(
            Stage(steps=6000, batch=128, length=256, sources=_DISTIL),
            Stage(steps=300, batch=16, length=CONTEXT_LENGTH, sources=_STORIES),
        ),
        matrix_rate=5e-3,
        vector_rate=4e-3,
        warmup_steps=100,
        decay_share=0.7,
    ),
)

MINIATURE = Recipe(
    name="miniature",
    vocabulary=320,
    target=Shape(layers=2, width=64, heads=2, feed_forward=128),
    draft=Shape(layers=1, width=64, heads=2, feed_forward=128),
    target_schedule=Schedule(
        stages=(Stage(steps=60, batch=16, length=64, sources={"tinystories": 1.0}),),
        matrix_rate=5e-3,
        vector_rate=4e-3,
        warmup_steps=5,
        decay_share=0.5,
    ),
    own_text=OwnText(sequences=16, length=64, temperatures=(0.0, 1.0), batch=8),
    draft_schedule=Schedule(
        stages=(Stage(steps=40, batch=16, length=64, sources={OWN_TEXT: 0.3, "tinystories": 0.7}),),
        matrix_rate=5e-3,
        vector_rate=4e-3,
        warmup_steps=5,
        decay_share=0.5,
    ),
)

RECIPES = {recipe.name: recipe for recipe in (CPU, GPU, MINIATURE)}
