"""The symbols of the formulas, each with its name in words and its meaning in one sentence.

Pages show the meaning of a symbol in a small panel; formulas and the help of figures list the
names. To add a symbol, add an entry to ``SYMBOLS`` and a row to the table in ``docs/figures.md``. A
test compares both.
"""

from __future__ import annotations

import re

from specviz.values import Value


class Symbol(Value):
    """A symbol of the formulas.

    ``formula`` says how the symbol's value is computed from a run; `catalogue` uses it, too.
    ``chapter`` says where the documentation explains the symbol: a chapter and a heading in it.
    """

    sign: str
    latex: str
    name: str
    meaning: str
    formula: str = ""
    chapter: str = "figures#symbols"

    @property
    def sentence(self) -> str:
        return f"{self.meaning}: {self.formula}." if self.formula else f"{self.meaning}."


SYMBOLS = {
    "alpha": Symbol(
        sign="α",
        latex=r"\alpha",
        name="acceptance rate",
        meaning="Probability that a tested candidate is accepted",
        formula="accepted / tested",
        chapter="figures#definitions",
    ),
    "gamma": Symbol(
        sign="γ",
        latex=r"\gamma",
        name="candidates per round",
        meaning="Number of tokens that the draft proposes before the target verifies them",
    ),
    "tau": Symbol(
        sign="τ",
        latex=r"\tau",
        name="tokens per round",
        meaning="Mean number of tokens that a round adds to the text",
        formula="tokens / whole rounds",
        chapter="figures#definitions",
    ),
    "c": Symbol(
        sign="c",
        latex="c",
        name="draft cost",
        meaning="Cost of a draft step in target steps",
        formula="draft step time / target step time",
        chapter="figures#step-costs-and-forecasts",
    ),
    "v": Symbol(
        sign="v",
        latex="v",
        name="verification cost",
        meaning="Cost of a verification in target steps",
        formula="time to verify γ + 1 tokens / target step time",
        chapter="figures#step-costs-and-forecasts",
    ),
    "overhead": Symbol(
        sign="o",
        latex="o",
        name="overhead",
        meaning="Cost of the rest of a round, such as verdicts, in target steps",
        formula="time outside both models / target step time",
        chapter="figures#step-costs-and-forecasts",
    ),
    "epsilon": Symbol(
        sign="ε",
        latex=r"\varepsilon",
        name="over-acceptance",
        meaning="Number that the over-acceptance rule adds to the target's probability of a "
        "candidate; with ε = 0, the rule is lossless",
    ),
}


def names_in_formula(*names: str) -> dict[str, str]:
    """Return the names of these symbols by their LaTeX code, for the line below a formula."""
    return {SYMBOLS[each].latex: SYMBOLS[each].name for each in names}


def names_of_symbols(text: str) -> str:
    """Return the symbols in a text with their names, such as "τ: tokens per round".

    A symbol whose name is in the text is left out.
    """
    signs = [each.sign for each in SYMBOLS.values()]
    letters = "".join(each for each in signs if each.isascii())  # may be a part of a word
    others = "".join(each for each in signs if not each.isascii())
    found = set(re.findall(rf"(?<![A-Za-z])[{letters}](?![A-Za-z])|[{others}]", text))
    used = [each for each in SYMBOLS.values() if each.sign in found and each.name not in text]
    return ", ".join(f"{each.sign}: {each.name}" for each in used)
