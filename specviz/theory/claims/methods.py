"""Claims about confidence thresholds (transformers) and block verification (Sun et al. 2024)."""

from __future__ import annotations

import numpy as np

from specviz.theory.blocks import (
    accepted_given,
    emitted_distribution,
)
from specviz.theory.chains import Floats, random_chains
from specviz.theory.claims.claim import BLOCKS, MANUAL, Chart, Claim, Figure, verdict_for
from specviz.theory.claims.swapped import (
    accepted_by_verifier,
    chart_of_verifiers,
    figures_of_verifiers,
    first_gain,
    gain_of_blocks,
)
from specviz.theory.examples import SWAPPED, THREE
from specviz.theory.rounds import (
    Kernel,
    Text,
    chain_distribution,
    continued,
    mean_accepted,
    round_bias,
)
from specviz.theory.stopping import after_unlikely, before_unsure, drop_unlikely

_ROUNDING = 1e-12
_SURE = 0.2  # the confidence threshold on the card
_GAMMA = 3
_CHAINS = 5  # pairs of random Markov chains over three tokens


def method_claims() -> tuple[Claim, ...]:
    return _unsure_tokens(), _never_worse()


def _unsure_tokens() -> Claim:
    draft, target = _constant_kernel(THREE.draft), _constant_kernel(THREE.target)
    dropped = chain_distribution(draft, target, 1, drop_unlikely(_SURE))
    least, middle, _ = sorted(THREE.draft)
    surer = round_bias(chain_distribution(draft, target, 1, drop_unlikely(1.5 * middle)), target)
    first_token = continued(dropped, target, 1)
    written = [first_token[token,] for token in range(len(THREE.target))]
    still_verified, not_drawn = (
        round_bias(chain_distribution(draft, target, _GAMMA, stops=stops), target)
        for stops in (after_unlikely(draft, _SURE), before_unsure(draft, _SURE))
    )
    bias = round_bias(dropped, target)
    return Claim(
        id="unsure-tokens",
        source=MANUAL,
        quote="If the assistant model's confidence in its prediction for the current token is "
        "lower than this threshold, the assistant model stops the current token generation "
        "iteration …",
        verdict=verdict_for([max(still_verified, not_drawn) < _ROUNDING, bias < _ROUNDING]),
        finding="The quote does not specify what happens to the unsure token, which decides "
        f"whether the output is exact. With draft {_format_probs(THREE.draft)}, target "
        f"{_format_probs(THREE.target)} and threshold {_SURE:g}: if the token is still verified, "
        f"the error is {still_verified:.0e}; if it is dropped and a target token replaces it, the "
        f"output is {_format_probs(written)}. A drawn token must be verified; otherwise it is too "
        "rare in the output. Stopping before the draw, based on the draft’s highest probability, "
        "is also exact.",
        flip=f"The draft’s lowest probability is {least:g}. Up to this threshold, nothing is "
        f"dropped; above {middle:g} two of the three tokens are dropped, and the error is "
        f"{surer:.2f}. If unsure tokens are verified, the output is exact at any threshold.",
        figures=(
            Figure(label="error, verified", value=still_verified, form=".0e"),
            Figure(label="error, dropped", value=bias),
            Figure(label=f"P(C), dropped; target {THREE.target[2]:g}", value=written[2]),
        ),
        chart=Chart(
            page="bias",
            label="The two distributions",
            settings=(("bias_example", THREE.name), ("bias_epsilon", 0.0)),
        ),
    )


def _never_worse() -> Claim:
    draft, target = SWAPPED.draft, SWAPPED.target
    token, block = accepted_by_verifier(2)
    alone = [accepted_given((0, 0), [draft] * 2, [target] * 3, each) for each in _VERIFIERS]
    in_context = [_in_context(seed) for seed in range(_CHAINS)]
    most = max(two / one for one, two in in_context)
    return Claim(
        id="never-worse",
        source=BLOCKS,
        quote="… and specifically is never worse than the standard token-level verification.",
        verdict=verdict_for(
            [gain_of_blocks(gamma) > -_ROUNDING for gamma in range(1, 9)]
            + [two > one - _ROUNDING for one, two in in_context]
        ),
        finding=f"True for the mean. If the draft swaps the target’s probabilities of two tokens "
        f"and γ is 2, block verification accepts {block:.4f} candidates on average, and token "
        f"verification accepts {token:.4f}. On {_CHAINS} pairs of random Markov chains with "
        f"γ {_GAMMA}, where the distributions depend on the previous token, block verification "
        f"accepts up to {most:.2f} times as many. The quote does not hold for every block: if "
        f"token A was drafted twice, block verification accepts {alone[1]:.2f} candidates on "
        f"average, and token verification accepts {alone[0]:.2f}.",
        flip=f"At γ 1 the two verifiers are identical; from γ {first_gain()} on, block "
        "verification accepts more candidates than token verification.",
        figures=figures_of_verifiers(2, form=".4f", suffix=", γ 2"),
        chart=chart_of_verifiers(2),
        run="blocks",
    )


_VERIFIERS = ("token", "block")


def _in_context(seed: int) -> tuple[float, float]:
    """Return the mean accepted candidates of token and of block verification on random chains."""
    chains = random_chains(seed, 3, _GAMMA + 1)
    draft, target = _as_kernel(chains.draft_kernels), _as_kernel(chains.target_kernels)
    token, block = (
        mean_accepted(emitted_distribution(draft, target, _GAMMA, chains.size, each))
        for each in _VERIFIERS
    )
    return token, block


def _constant_kernel(chances: tuple[float, ...]) -> Kernel:
    def next_probs(text: Text) -> tuple[float, ...]:
        del text
        return chances

    return next_probs


def _as_kernel(kernels: Floats) -> Kernel:
    """Return a function from a text to the next token's distribution under a Markov chain.

    ``kernels`` holds the chain's transition probabilities. The prompt's last token is token 0.
    """

    def next_probs(text: Text) -> Floats:
        return kernels[len(text), text[-1] if text else 0]

    return next_probs


def _format_probs(chances: tuple[float, ...] | list[float]) -> str:
    return f"({', '.join(f'{each:.2f}'.rstrip('0') for each in np.asarray(chances).tolist())})"
