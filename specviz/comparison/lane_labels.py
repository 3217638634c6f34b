"""Label the lanes of a comparison (pairs with settings) by the settings in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specviz.figures.body_words import simulated_cost
from specviz.record.bodies import NO_BODY
from specviz.record.drafters import chosen_drafter
from specviz.record.run_config import RunConfig
from specviz.record.shapes import shape_text

if TYPE_CHECKING:
    from specviz.comparison.plan import Lane

_DEFAULTS = ("no tree", "one draft", "drafts may repeat", "until count")  # left out of labels


def lane_labels(lanes: Sequence[Lane]) -> tuple[str, ...]:
    """Return a unique label for each lane.

    The label is the lane's name or, without a name, the settings in which the lane differs.
    """
    titles = {lane.spec.label: lane.spec.title for lane in lanes}
    shared = {each for each in titles.values() if list(titles.values()).count(each) > 1}
    words = [_words(lane, lane.spec.title not in shared) for lane in lanes]
    apart = [i for i in range(len(words[0])) if len({each[i] for each in words}) > 1]
    labels = [
        lane.name.strip() or _label(words, apart, own)
        for lane, own in zip(lanes, words, strict=True)
    ]
    return _distinct(labels, ["".join(f" · {each[i]}" for i in apart) for each in words])


def _label(words: list[tuple[str, ...]], apart: list[int], own: tuple[str, ...]) -> str:
    """Return a label without the settings that more than half of the lanes share.

    Args:
        words: The settings of each lane as text.
        apart: The indices of the settings in which lanes differ.
        own: The settings of this lane as text.
    """
    if not apart:
        return own[0]
    distinctive = [
        own[i] for i in apart if 2 * sum(each[i] == own[i] for each in words) <= len(words)
    ]
    usual = [own[i] for i in apart if own[i] not in _DEFAULTS] or [own[apart[0]]]
    return " · ".join(word for word in distinctive or usual if word)


def _distinct(labels: list[str], more: list[str]) -> tuple[str, ...]:
    """Return the labels, made unique.

    ``more`` has a text for each lane: all settings in which the lanes differ. This text is added to
    a duplicate label. If the label is still a duplicate, a number is added.
    """
    longer = [
        label + extra if labels.count(label) > 1 else label
        for label, extra in zip(labels, more, strict=True)
    ]
    made: list[str] = []
    for label in longer:
        tried, number = label, 2
        while tried in made:
            tried, number = f"{label} ({number})", number + 1
        made.append(tried)
    return tuple(made)


def _words(lane: Lane, title_is_unique: bool) -> tuple[str, ...]:
    spec, config = lane.spec, lane.config
    return (
        spec.title if title_is_unique else spec.label,
        _body("target", spec.target_body),
        _body("draft", spec.draft_body),
        f"target weights {spec.target_weights}",
        f"draft weights {spec.draft_weights}",
        "shared vocabulary" if spec.shared_vocabulary else "one vocabulary",
        chosen_drafter(config.drafter).words,
        " and ".join(f"forked at {each.words}" for each in config.forks),
        f"γ {config.gamma}",
        f"T {config.temperature:g}",
        f"top-k {config.top_k}" if config.top_k else "no top-k",
        f"top-p {config.top_p:g}" if config.top_p < 1 else "no top-p",
        config.rule,
        _tree(config),
        f"{config.num_drafts} drafts" if config.num_drafts > 1 else "one draft",
        "drafts may repeat" if config.replacement else "no draft twice",
        f"until {config.draft_until}",
        f"ε {config.epsilon:g}",
        f"residual {config.residual}",
        f"on {spec.device}",
        spec.dtype,
        f"{spec.step} step",
        f"{spec.threads or 'chosen'} threads",
    )


def _tree(config: RunConfig) -> str:
    if config.dynamic_tree:
        return f"dynamic tree {shape_text(config.dynamic_tree)}"
    return f"tree {shape_text(config.branching)}" if config.branching else "no tree"


def _body(role: str, body: str) -> str:
    return f"{role} at its own size" if body == NO_BODY else f"{role} at {simulated_cost(body)}"
