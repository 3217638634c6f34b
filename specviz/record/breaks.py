"""The bug zoo: deliberate mistakes in speculative decoding, and what each one costs.

They show that the audit can fail. A mistake that costs the law writes other text than the target;
one that costs acceptance alone writes the right text more slowly, which no test of the text finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.errors import ConfigError

Symptom = Literal["the law", "acceptance", "both"]
_COSTS: dict[Symptom, str] = {
    "the law": "the law", "acceptance": "acceptance only", "both": "the law and acceptance",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One mistake. ``distance`` was measured on the embedded pair at temperature 1: the mean total
    variation between the law of an affected token and the target; None where there is none."""

    name: str
    does: str
    symptom: Symptom  # what it costs
    why: str
    distance: float | None = None

    @property
    def biased(self) -> bool:
        return self.symptom != "acceptance"

    @property
    def costs(self) -> str:
        """The symptom in words."""
        return _COSTS[self.symptom]


_ALL = (
    Break(
        name="recovered-from-target",
        does="After a rejection, the token is drawn from the target's law, not from the residual.",
        symptom="the law",
        why="Accepted candidates already fill the part of the target's law that the draft covers. "
        "The recovered token has to fill only what is left; drawn from the whole law, it makes "
        "tokens too frequent that the draft likes too much. At temperature 0 the two are the same.",
        distance=0.126,
    ),
    Break(
        name="untrimmed-target-cache",
        does="After a rejection, the target's cache keeps the candidates that did not stand.",
        symptom="both",
        why="From then on the target reads a text with words in it that were never written. Its "
        "laws are those of another text, and the draft, which reads the right one, agrees less.",
        distance=0.48,
    ),
    Break(
        name="untrimmed-draft-cache",
        does="After a rejection, the draft's cache keeps the candidates that did not stand.",
        symptom="acceptance",
        why="The draft reads words that were never written, so it guesses worse. The ratio uses "
        "the very law that was drawn from, however bad, so what is emitted keeps the target's law.",
    ),
    Break(
        name="draft-temperature",
        does="Candidates are drawn at half the run's temperature, while the ratio and the residual "
        "use the draft's law at the run's own.",
        symptom="the law",
        why="The ratio must use the very law that was drawn from. A draft at another temperature "
        "is exact if it does; here likely candidates come too often and are not held back for it. "
        "Acceptance hardly moves, so it gives no hint. At temperature 0 there is no difference.",
        distance=0.196,
    ),
    Break(
        name="match",
        does="The draft's likeliest token is the candidate, and stands with the target's "
        "probability of it.",
        symptom="acceptance",
        why="This is another algorithm and no mistake: the candidate was drawn from a law that is "
        "certain of it, the ratio uses this law, and so the text is exact. The chance to stand is "
        "the target's probability of one token, not the overlap of both laws.",
    ),
    Break(
        name="reused-uniform",
        does="The uniform that drew a candidate decides on it, too.",
        symptom="the law",
        why="Inverse sampling gives tokens with low numbers small uniforms and those with high "
        "numbers large ones. A small uniform accepts, a large one rejects, so tokens with low "
        "numbers become too frequent. Acceptance hardly moves, so it gives no hint. At temperature "
        "0 no uniform matters.",
        distance=0.108,
    ),
    Break(
        name="bonus-from-draft",
        does="When every candidate stands, the bonus token is drawn from the draft's law.",
        symptom="the law",
        why="Nobody judges the bonus token, so it has to come from the target itself. It has the "
        "draft's law here, which is off by the whole distance of the two models.",
        distance=0.32,
    ),
)  # fmt: skip
BREAKS: dict[str, Break] = {each.name: each for each in _ALL}


def break_named(name: str) -> Break:
    """Raises ConfigError for a name that is not in the zoo."""
    if name not in BREAKS:
        raise ConfigError(f"{name!r} is no bug.", remedy=f"Choose one of {', '.join(BREAKS)}.")
    return BREAKS[name]
