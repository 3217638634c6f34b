"""Convert the verdicts of a round to the values of the trace."""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np

from specviz.engine.decoding.endings import RoundOutput
from specviz.engine.decoding.judging import TargetToken, Verdicts
from specviz.engine.decoding.proposal import Tree, depths
from specviz.engine.decoding.sampling import EXTRA_SLOT, verdict_slot
from specviz.engine.model.text import TokenTable
from specviz.record.trace import Candidate, Extra, Rival, Verdict


def candidates_of(
    tree: Tree,
    verdicts: Verdicts,
    output: RoundOutput,
    uniforms: np.ndarray,
    overruled: Mapping[int, float],
    table: TokenTable,
) -> tuple[Candidate, ...]:
    """Return the round's candidates as the trace stores them.

    The user may replace a candidate's uniform in a fork. ``overruled`` then has the original
    uniform, by candidate position.
    """
    draws = uniforms[verdict_slot(0) :: 2].tolist()
    outcomes = _outcomes(tree, verdicts, output)
    return tuple(
        Candidate(
            token_id=token_id,
            text=table.text(token_id),
            verdict=outcomes[i],
            draft_prob=verdicts.draft_probs[i],
            target_prob=verdicts.target_probs[i],
            uniform=draws[verdicts.decided_with[i] if verdicts.decided_with else i],
            expected_acceptance=min(1.0, verdicts.expected[i]),
            overruled=overruled.get(i),
            parent=tree.parents[i] if tree.parents else None,
            joint=verdicts.joint[i] if verdicts.joint else None,
            coin=verdicts.coins[i] if verdicts.coins else None,
            noise=verdicts.noises[i] if verdicts.noises else None,
            rival=_rival(verdicts.rivals[i], table) if verdicts.rivals else None,
        )
        for i, token_id in enumerate(verdicts.token_ids)
    )


def extra_of(
    tree: Tree,
    verdicts: Verdicts,
    output: RoundOutput,
    uniforms: np.ndarray,
    table: TokenTable,
    proposable: Container[int] | None = None,
) -> Extra | None:
    """Return the recovered or bonus token; None if the text ended before it.

    ``proposable``: the result of ``drafting.proposable_by``.
    """
    if not output.has_extra:
        return None
    last = verdicts.path[-1] if verdicts.path else -1
    bonus = last not in tree.in_tree  # no candidate follows the last accepted one
    return Extra(
        token_id=verdicts.extra_id,
        text=table.text(verdicts.extra_id),
        kind="bonus" if bonus else "recovered",
        target_prob=verdicts.extra_target_prob,
        draft_prob=None if bonus else verdicts.extra_draft_prob,
        uniform=float(uniforms[EXTRA_SLOT]),
        noise=verdicts.extra_noise,
        outside=proposable is not None and verdicts.extra_id not in proposable,
    )


def _outcomes(tree: Tree, verdicts: Verdicts, output: RoundOutput) -> list[Verdict]:
    """Return each candidate's verdict, taking the end of the text into account."""
    accepted = set(verdicts.path[: output.num_accepted])
    untested: Verdict = "cut" if verdicts.judged_jointly and output.has_extra else "discarded"
    outcomes: list[Verdict] = [
        "accepted" if number in accepted else untested for number in range(len(verdicts.token_ids))
    ]
    places = depths(tree.in_tree)
    for number in verdicts.rejected:
        if places[number] < output.num_accepted + output.has_extra:
            outcomes[number] = "rejected"
    return outcomes


def _rival(word: TargetToken | None, table: TokenTable) -> Rival | None:
    if word is None:
        return None
    return Rival(
        token_id=word.token_id,
        text=table.text(word.token_id),
        target_prob=word.target_prob,
        noise=word.noise,
        margin=word.margin,
    )
