"""How candidates are judged: one entry a rule.

Whatever depends on the rule asks here for what it is, not for its name. A new rule is a name, one
entry, and a body with its case in ``make_judge`` of ``engine/decoding/judges.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RuleName = Literal["lossless", "block", "coupled", "match", "over-accept", "typical"]
Deciding = Literal["odds", "together", "equal", "threshold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """``deciding``: what a candidate's fate hangs on. *odds*: min(1, target/draft), candidate by
    candidate; *together*: one decision on all of them; *equal*: whether the target says the same
    token; *threshold*: its target probability alone. ``takes``: settings that only it looks at."""

    name: RuleName
    words: str
    does: str
    exact: bool  # the text has the target's law
    deciding: Deciding
    several: bool = False  # also judges several drafts and trees
    takes: tuple[str, ...] = ()

    @property
    def one_by_one(self) -> bool:
        """Whether each candidate has a verdict of its own, so that an α means something."""
        return self.deciding != "together"


_RULES = (
    Rule(
        name="lossless",
        words="token by token",
        does="accepts each candidate with the chance min(1, target/draft)",
        exact=True,
        deciding="odds",
        several=True,
    ),
    Rule(
        name="block",
        words="block verification",
        does="judges all candidates of a round together; exact, and never fewer are accepted",
        exact=True,
        deciding="together",
    ),
    Rule(
        name="coupled",
        words="coupled by shared noise",
        does="gives draft and target the same noise and accepts where they say the same; exact, "
        "and the text depends on the seed and the target alone",
        exact=True,
        deciding="equal",
    ),
    Rule(
        name="match",
        words="sample and match",
        does="lets the draft propose its likeliest token, draws the target's own and accepts where "
        "they are the same; exact, as several servers do it",
        exact=True,
        deciding="equal",
    ),
    Rule(
        name="over-accept",
        words="over-acceptance",
        does="adds ε to the target's probability; lossy",
        exact=False,
        deciding="odds",
        takes=("epsilon", "residual"),
    ),
    Rule(
        name="typical",
        words="typical acceptance",
        does="accepts what the target finds likely enough, from ε and its entropy (Medusa's); "
        "lossy",
        exact=False,
        deciding="threshold",
        takes=("epsilon",),
    ),
)
RULES: dict[str, Rule] = {rule.name: rule for rule in _RULES}
RULES_IN_WORDS = "; ".join(f"{rule.name} {rule.does}" for rule in _RULES)
