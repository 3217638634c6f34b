"""Small pairs of distributions with their sources, for pages and tests."""

from __future__ import annotations

from specviz.values import Value


class Example(Value):
    """A draft and a target distribution over the same few tokens, and their source."""

    name: str
    labels: tuple[str, ...]
    draft: tuple[float, ...]
    target: tuple[float, ...]
    source: str


_GUIDE = (
    "This is the example “discovered a breakthrough” from a practical guide. The guide gives both "
    "models' probabilities of the drafted token; the other probabilities are chosen here."
)

# The guide's third token: draft 0.5, target 0.2; the target samples "new".
WORKED_EXAMPLE = Example(
    name="breakthrough",
    labels=("breakthrough", "new", "method", "planet", "way"),
    draft=(0.50, 0.20, 0.10, 0.15, 0.05),
    target=(0.20, 0.45, 0.15, 0.10, 0.10),
    source=_GUIDE,
)

# The guide's first token: draft 0.6, target 0.8.
SURE_EXAMPLE = Example(
    name="discovered",
    labels=("discovered", "made", "found", "saw"),
    draft=(0.60, 0.20, 0.15, 0.05),
    target=(0.80, 0.10, 0.08, 0.02),
    source=_GUIDE,
)

REF5 = Example(
    name="five tokens",
    labels=("A", "B", "C", "D", "E"),
    draft=(0.50, 0.20, 0.15, 0.10, 0.05),
    target=(0.25, 0.30, 0.10, 0.25, 0.10),
    source="The distributions are chosen so that their overlap, Σ min(draft, target), is 0.7 and "
    "no probability is zero.",
)

SWAPPED = Example(
    name="two tokens",
    labels=("A", "B"),
    draft=(2 / 3, 1 / 3),
    target=(1 / 3, 2 / 3),
    source="The draft swaps the target's probabilities of the two tokens. From γ = 2 on, block "
    "verification accepts more candidates than token verification (Sun et al. 2024).",
)

THREE = Example(
    name="three tokens",
    labels=("A", "B", "C"),
    draft=(0.6, 0.3, 0.1),
    target=(0.4, 0.3, 0.3),
    source="The distributions are chosen so that the draft's least likely token is likely under "
    "the target.",
)

EXAMPLES = (WORKED_EXAMPLE, SURE_EXAMPLE, REF5, SWAPPED, THREE)
