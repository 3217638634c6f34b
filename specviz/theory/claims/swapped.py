"""Token and block verification if the draft swaps the target's probabilities of two tokens."""

from __future__ import annotations

from specviz.theory.blocks import expected_accepted, token_accepted
from specviz.theory.claims.claim import Chart, Figure, first
from specviz.theory.examples import SWAPPED

_ROUNDING = 1e-12
_LONGEST = 8


def accepted_by_verifier(gamma: int) -> tuple[float, float]:
    """Return the mean accepted candidates of token verification and of block verification."""
    pair = SWAPPED.draft, SWAPPED.target
    return token_accepted(*pair, gamma), expected_accepted(*pair, gamma)


def gain_of_blocks(gamma: int) -> float:
    token, block = accepted_by_verifier(gamma)
    return block - token


def first_gain() -> int:
    """Return the smallest γ at which block verification accepts more candidates."""
    return first(lambda gamma: gain_of_blocks(gamma) > _ROUNDING, 1, _LONGEST)


def figures_of_verifiers(gamma: int, *, form: str, suffix: str = "") -> tuple[Figure, ...]:
    """Return the accepted candidates of both verifiers at ``gamma``, and the first gain.

    ``suffix`` follows the labels of the verifiers.
    """
    token, block = accepted_by_verifier(gamma)
    return (
        Figure(label=f"token verification{suffix}", value=token, form=form),
        Figure(label=f"block verification{suffix}", value=block, form=form),
        Figure(label="first gain at γ", value=first_gain(), form=".0f"),
    )


def chart_of_verifiers(gamma: int) -> Chart:
    return Chart(
        page="bias",
        label="Token and block verification at each γ",
        settings=(
            ("bias_example", SWAPPED.name),
            ("bias_section", "Whole blocks"),
            ("bias_gamma", gamma),
        ),
    )
