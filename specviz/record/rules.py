"""The acceptance rules, with a ``Rule`` for each.

Other code reads the attributes of a ``Rule`` and does not compare names. To add a rule, add a name,
a ``Rule``, and a judge with its case in ``make_judge`` of ``engine/decoding/judges.py``.
"""

from __future__ import annotations

from typing import Literal

from specviz.values import Value

RuleName = Literal["lossless", "block", "coupled", "match", "over-accept", "typical"]
Deciding = Literal["odds", "together", "equal", "threshold"]


class Rule(Value):
    """A rule by which drafted candidates are accepted or rejected.

    ``deciding``: what decides a verdict. *odds*: min(1, target/draft) of each candidate;
    *together*: one test of all candidates of a round (block verification); *equal*: whether the
    target samples the candidate's token; *threshold*: the target's distribution alone. ``takes``:
    the settings, such as ``epsilon``, that this rule uses and some other rules ignore.
    """

    name: RuleName
    words: str
    does: str
    exact: bool  # the text has the target's distribution
    deciding: Deciding
    several: bool = False  # also verifies several drafts
    trees: bool = False  # also verifies trees
    takes: tuple[str, ...] = ()

    @property
    def one_by_one(self) -> bool:
        """Return whether each candidate has a verdict of its own, so that α is defined."""
        return self.deciding != "together"


_RULES = (
    Rule(
        name="lossless",
        words="token by token",
        does="accepts each candidate with probability min(1, target/draft)",
        exact=True,
        deciding="odds",
        several=True,
        trees=True,
    ),
    Rule(
        name="block",
        words="block verification",
        does="verifies all candidates of a round jointly; exact, and on average accepts at least "
        "as many candidates as lossless",
        exact=True,
        deciding="together",
    ),
    Rule(
        name="coupled",
        words="coupled by shared noise",
        does="samples draft and target with the same noise and accepts if both sample the same "
        "token; exact, and the text depends only on the seed and the target",
        exact=True,
        deciding="equal",
    ),
    Rule(
        name="match",
        words="sample and match",
        does="proposes the draft's likeliest token and accepts it if the target samples the same "
        "token; exact, and used by several servers",
        exact=True,
        deciding="equal",
        trees=True,
    ),
    Rule(
        name="over-accept",
        words="over-acceptance",
        does="accepts with probability min(1, (target + ε)/draft); lossy",
        exact=False,
        deciding="odds",
        takes=("epsilon", "residual"),
    ),
    Rule(
        name="typical",
        words="typical acceptance",
        does="accepts tokens whose target probability exceeds a threshold, which depends on ε and "
        "the target's entropy (as in Medusa); lossy",
        exact=False,
        deciding="threshold",
        takes=("epsilon",),
    ),
)
RULES: dict[str, Rule] = {rule.name: rule for rule in _RULES}
RULES_IN_WORDS = "; ".join(f"{rule.name} {rule.does}" for rule in _RULES)
