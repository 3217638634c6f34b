"""The bug zoo: deliberate mistakes in speculative decoding, and what each mistake affects.

The mistakes show that the audit of exactness can fail. Some mistakes change the output
distribution. Others only lower acceptance: decoding is exact but slower, and no test of the text
detects this.
"""

from __future__ import annotations

from typing import Literal

from specviz.errors import ConfigError
from specviz.values import Value

Symptom = Literal["distribution", "acceptance", "both"]
_COSTS: dict[Symptom, str] = {
    "distribution": "exactness",
    "acceptance": "acceptance only",
    "both": "exactness and acceptance",
}


class Break(Value):
    """A deliberate mistake in speculative decoding.

    ``distance`` was measured on the embedded pair at temperature 1: the mean total variation
    between the distribution of an affected token and the target's. None if there is no bias.
    """

    name: str
    does: str
    symptom: Symptom  # what the mistake affects
    why: str
    distance: float | None = None

    @property
    def biased(self) -> bool:
        return self.symptom != "acceptance"

    @property
    def costs(self) -> str:
        """Text on what the mistake affects, such as the output or the acceptance."""
        return _COSTS[self.symptom]


_ALL = (
    Break(
        name="recovered-from-target",
        does="After a rejection, the recovered token is drawn from the target's distribution "
        "instead of from the residual.",
        symptom="distribution",
        why="Accepted candidates already cover the overlap of draft and target. The recovered "
        "token must cover only the rest. If it is drawn from the target's whole distribution, "
        "tokens that the draft overestimates are too frequent. At temperature 0 the bug has no "
        "effect.",
        distance=0.126,
    ),
    Break(
        name="untrimmed-target-cache",
        does="After a rejection, the target's cache keeps the rejected candidates.",
        symptom="both",
        why="After the first rejection, the target reads tokens that are not in the text, so its "
        "distributions belong to another text. The draft reads the right text, so fewer of its "
        "candidates are accepted.",
        distance=0.48,
    ),
    Break(
        name="untrimmed-draft-cache",
        does="After a rejection, the draft's cache keeps the rejected candidates.",
        symptom="acceptance",
        why="The draft reads tokens that are not in the text, so fewer of its candidates are "
        "accepted. The ratio target/draft still uses the distribution from which a candidate was "
        "drawn, so the output is exact.",
    ),
    Break(
        name="draft-temperature",
        does="Candidates are drawn at half the run's temperature, while the ratio target/draft and "
        "the residual use the draft's distribution at the run's temperature.",
        symptom="distribution",
        why="If the ratio uses the distribution that the candidate was drawn from, the output is "
        "exact at any temperature of the draft. Here, the ratio uses another distribution, so "
        "likely candidates are too frequent in the output. Acceptance hardly changes, so it does "
        "not reveal the mistake. At temperature 0 the bug has no effect.",
        distance=0.196,
    ),
    Break(
        name="match",
        does="The candidate is always the draft's likeliest token. It is accepted with its "
        "probability under the target.",
        symptom="acceptance",
        why="This is another algorithm, not a mistake: the candidate comes from a one-hot "
        "distribution, the ratio uses that distribution, and so the output is exact. The "
        "acceptance probability is the target's probability of one token, not the overlap of "
        "draft and target.",
    ),
    Break(
        name="reused-uniform",
        does="The random number that drew a candidate also decides whether the candidate is "
        "accepted.",
        symptom="distribution",
        why="With inverse sampling, small random numbers draw low token ids, and large random "
        "numbers draw high ids. The same small number then accepts the candidate, and the same "
        "large number rejects it, so low token ids become too frequent. Acceptance hardly changes, "
        "so it does not reveal the mistake. At temperature 0 the bug has no effect.",
        distance=0.108,
    ),
    Break(
        name="bonus-from-draft",
        does="If every candidate is accepted, the bonus token is drawn from the draft.",
        symptom="distribution",
        why="The bonus token is not verified, so it has to come from the target. If it is drawn "
        "from the draft, its distribution is the draft's: the bias is the whole distance between "
        "the two models.",
        distance=0.32,
    ),
)  # fmt: skip
BREAKS: dict[str, Break] = {each.name: each for each in _ALL}


def break_named(name: str) -> Break:
    """Return the bug with this name.

    Raises:
        ConfigError: There is no such bug.
    """
    if name not in BREAKS:
        raise ConfigError(f"{name!r} is not a bug.", remedy=f"Choose one of {', '.join(BREAKS)}.")
    return BREAKS[name]
