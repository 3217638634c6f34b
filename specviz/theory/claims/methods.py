"""Sentences on other ways to speculate, from those who made them."""

from __future__ import annotations

import numpy as np

from specviz.theory.blocks import (
    accepted_given,
    emitted_distribution,
    expected_accepted,
    token_accepted,
)
from specviz.theory.chains import Floats, random_chains
from specviz.theory.claims.claim import BLOCKS, MANUAL, Chart, Claim, Figure, first, judged
from specviz.theory.claims.rules import chart_of_blocks
from specviz.theory.examples import SWAPPED, THREE
from specviz.theory.rounds import (
    Kernel,
    Text,
    chain_distribution,
    continued,
    mean_accepted,
    round_bias,
)
from specviz.theory.stopping import before_unsure, behind_unlikely, dropping

_ROUNDING = 1e-12
_SURE = 0.2  # the threshold on the card
_GAMMA = 3
_CHAINS = 5  # pairs of random chains over three tokens


def method_claims() -> tuple[Claim, ...]:
    return _unsure_tokens(), _never_worse()


def _unsure_tokens() -> Claim:
    draft, target = _always(THREE.draft), _always(THREE.target)
    dropped = chain_distribution(draft, target, 1, dropping(_SURE))
    least, middle, _ = sorted(THREE.draft)
    surer = round_bias(chain_distribution(draft, target, 1, dropping(1.5 * middle)), target)
    first_token = continued(dropped, target, 1)
    written = [first_token[token,] for token in range(len(THREE.target))]
    judged_still, not_drawn = (
        round_bias(chain_distribution(draft, target, _GAMMA, stops=stops), target)
        for stops in (behind_unlikely(draft, _SURE), before_unsure(draft, _SURE))
    )
    bias = round_bias(dropped, target)
    return Claim(
        id="unsure-tokens",
        source=MANUAL,
        quote="If the assistant model's confidence in its prediction for the current token is "
        "lower than this threshold, the assistant model stops the current token generation "
        "iteration …",
        verdict=judged([max(judged_still, not_drawn) < _ROUNDING, bias < _ROUNDING]),
        finding="The sentence leaves open what becomes of the unsure token, and that decides "
        f"whether the text stays the target’s. With draft {_told(THREE.draft)}, target "
        f"{_told(THREE.target)} and threshold {_SURE:g}: if the token is still judged, the error "
        f"is {judged_still:.0e}; if it is thrown away and the target writes in its place, the "
        f"text has {_told(written)}. A token that was drawn must be judged, or its chance is "
        "missing. To stop before the draw, on the greatest of the draft’s chances, is exact, too.",
        flip=f"Up to a threshold of {least:g}, the draft’s least chance, nothing is thrown away; "
        f"above {middle:g} two of the three tokens are, with an error of {surer:.2f}. Judged, an "
        "unsure token does no harm at any threshold.",
        figures=(
            Figure(label="error, judged", value=judged_still, form=".0e"),
            Figure(label="error, thrown away", value=bias),
            Figure(label=f"chance of C, not {THREE.target[2]:g}", value=written[2]),
        ),
        chart=Chart(
            page="bias",
            label="The two distributions",
            settings=(("bias_example", THREE.name), ("bias_epsilon", 0.0)),
        ),
    )


def _never_worse() -> Claim:
    draft, target = SWAPPED.draft, SWAPPED.target
    token, block = token_accepted(draft, target, 2), expected_accepted(draft, target, 2)
    turn = first(lambda gamma: _gain(gamma) > _ROUNDING, 1, 8)
    alone = [accepted_given((0, 0), [draft] * 2, [target] * 3, each) for each in _VERIFIERS]
    in_context = [_in_context(seed) for seed in range(_CHAINS)]
    most = max(two / one for one, two in in_context)
    return Claim(
        id="never-worse",
        source=BLOCKS,
        quote="… and specifically is never worse than the standard token-level verification.",
        verdict=judged(
            [_gain(gamma) > -_ROUNDING for gamma in range(1, 9)]
            + [two > one - _ROUNDING for one, two in in_context]
        ),
        finding=f"True of the mean. On two swapped tokens with γ 2 block verification accepts "
        f"{block:.4f} where token by token accepts {token:.4f}; counted on {_CHAINS} pairs of "
        f"random chains with γ {_GAMMA}, where every token changes the laws, it accepts up to "
        f"{most:.2f} times as many. It is not true of every single draft: where A A was drafted, "
        f"blocks accept {alone[1]:.2f} on average, token by token {alone[0]:.2f}.",
        flip=f"At γ 1 the two are the same rule; the gain begins at γ = {turn}.",
        figures=(
            Figure(label="token rule, γ 2", value=token, form=".4f"),
            Figure(label="block rule, γ 2", value=block, form=".4f"),
            Figure(label="first gain at γ", value=turn, form=".0f"),
        ),
        chart=chart_of_blocks(2),
        run="blocks",
    )


_VERIFIERS = ("token", "block")


def _gain(gamma: int) -> float:
    pair = SWAPPED.draft, SWAPPED.target
    return expected_accepted(*pair, gamma) - token_accepted(*pair, gamma)


def _in_context(seed: int) -> tuple[float, float]:
    """Accepted by either verifier on two random chains, counted over every round."""
    chains = random_chains(seed, 3, _GAMMA + 1)
    draft, target = _along(chains.draft_kernels), _along(chains.target_kernels)
    token, block = (
        mean_accepted(emitted_distribution(draft, target, _GAMMA, chains.size, each))
        for each in _VERIFIERS
    )
    return token, block


def _always(chances: tuple[float, ...]) -> Kernel:
    def law(text: Text) -> tuple[float, ...]:
        del text
        return chances

    return law


def _along(kernels: Floats) -> Kernel:
    """A chain's law behind a text; the prompt's last token is the first of the vocabulary."""

    def law(text: Text) -> Floats:
        return kernels[len(text), text[-1] if text else 0]

    return law


def _told(chances: tuple[float, ...] | list[float]) -> str:
    return f"({', '.join(f'{each:.2f}'.rstrip('0') for each in np.asarray(chances).tolist())})"
