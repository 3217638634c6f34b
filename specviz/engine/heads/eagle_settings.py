"""The settings of an EAGLE head that cannot be derived from its weights.

Formats disagree on the defaults, and a wrong setting lowers acceptance without an error. Where the
files are ambiguous, the settings follow vLLM, and a notice says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from specviz.engine.heads.head import TargetParts
from specviz.engine.model.step_capabilities import AFTER_NORM, HiddenStates
from specviz.errors import ModelFileError, PairError
from specviz.formats.heads import HeadFacts, section
from specviz.values import Value

_LAYERS_REMEDY = "Use a head that was trained for this target."
_STATE_LAYERS = "Write eagle_aux_hidden_state_layer_ids into the head's config.json."


class EagleSettings(Value):
    """How a head uses the target's hidden states and its own states."""

    places: tuple[int, ...]  # as in ``HiddenStates``
    norm_before_residual: bool = False  # the residual starts at the normed state
    norm_before_fc: bool = False  # one norm over all joined states
    fc_norm: bool = False  # one norm for each joined state
    recycle_normed: bool = False  # the head continues from its state after the final norm
    embedding_first: bool = True  # joined as [embedding, state]
    shift_ids: Literal[0, 1] = 1  # 1: a row embeds the token after its state's; 0: the same token

    @property
    def states(self) -> HiddenStates:
        return HiddenStates(self.places)


@dataclass(slots=True)
class _Reading:
    """Interprets a head's configuration, and collects notices about it."""

    facts: HeadFacts
    target: TargetParts
    notices: list[str] = field(default_factory=list)

    def flag(self, name: str) -> bool | None:
        """Return a boolean setting of the head; None if its configuration does not state it.

        A value in ``eagle_config`` takes precedence over a value at the configuration's top level.
        """
        for part in (section(self.facts.config, "eagle_config"), self.facts.config):
            if isinstance(found := part.get(name), bool):
                return found
        return None

    def settings(self, count: int, stored: frozenset[str]) -> EagleSettings:
        if self.facts.kind == "eagle":
            return EagleSettings(places=(AFTER_NORM,))
        return EagleSettings(
            places=self._places(count),
            norm_before_residual=self._norm_before_residual(),
            norm_before_fc=self._stored_norm("norm_before_fc", "input_norm", stored),
            fc_norm=self._stored_norm("fc_norm", "fc_norm", stored),
            recycle_normed=self._recycle_normed(),
        )

    def _places(self, count: int) -> tuple[int, ...]:
        layers = self.target.layers
        if reads_final_state(self.facts):
            return (AFTER_NORM,)
        if stated := self.facts.feature_layers:
            if min(stated) < 0:
                raise ModelFileError(
                    f"The head states the negative layer id {min(stated)}.",
                    remedy=_STATE_LAYERS,
                )
            places = tuple(each + (self.facts.convention == "output") for each in stated)
            if self.facts.convention == "":
                self.notices.append(
                    f"The head reads the inputs of the target's layers {_listed(stated)}, as in "
                    "vLLM; SGLang reads their outputs."
                )
        else:
            places = _default_places(layers)
        check_places(places, count, layers)
        return places

    def _norm_before_residual(self) -> bool:
        if (stated := self.flag("norm_before_residual")) is not None:
            return stated
        if self.facts.layout != "speculators":
            return False
        self.notices.append(
            "The head does not state norm_before_residual, so it is on, as in vLLM for this format."
        )
        return True

    def _stored_norm(self, flag: str, name: str, stored: frozenset[str]) -> bool:
        if (stated := self.flag(flag)) is not None:
            return stated
        if name in stored:
            self.notices.append(f"The head has {name} but does not state {flag}, so {flag} is on.")
        return name in stored

    def _recycle_normed(self) -> bool:
        stated = self.flag("norm_output")
        if self.facts.layout != "speculators" and stated is not None:
            self.notices.append(
                "SpecForge and vLLM interpret norm_output differently. Here, its value is ignored: "
                "the head continues from its state before the final norm."
            )
            return False
        return bool(stated)


def reads_final_state(facts: HeadFacts) -> bool:
    """Return whether an EAGLE-3 head reads only the target's final state and has no ``fc``."""
    return section(facts.config, "eagle_config").get("use_aux_hidden_state") is False


def read_settings(
    facts: HeadFacts, target: TargetParts, count: int, stored: frozenset[str]
) -> tuple[EagleSettings, tuple[str, ...]]:
    """Return the settings that a head's files state, and notices about ambiguous settings.

    Args:
        count: How many of the target's states the head joins, according to its weights' shapes.
        stored: Which of the optional norms "input_norm" and "fc_norm" the files have.

    Raises:
        PairError: The target does not have the layers that the head reads.
        ModelFileError: The settings contradict each other or the weights.
    """
    reading = _Reading(facts, target)
    settings = reading.settings(count, stored)
    if settings.norm_before_fc and settings.fc_norm:
        raise ModelFileError(
            f"{facts.path.name} states both norm_before_fc and fc_norm.",
            remedy="Set one of these two to false in the head's config.json.",
        )
    return settings, tuple(reading.notices)


def _default_places(layers: int) -> tuple[int, ...]:
    places = (2, layers // 2, layers - 3)
    if not 2 < places[1] < places[2]:
        raise PairError(
            f"The head does not state which layers it reads, and its target has only {layers} "
            "layers, too few for the default.",
            remedy=_STATE_LAYERS,
        )
    return places


def check_places(places: tuple[int, ...], count: int, layers: int) -> None:
    """Raise an error unless ``places`` names ``count`` hidden states that the target has.

    ``places`` are layer ids as in ``HiddenStates``; the target has ``layers`` layers.
    """
    if len(places) != count:
        raise ModelFileError(
            f"The head states {len(places)} layers, but its weights are for {count} hidden states.",
            remedy=_STATE_LAYERS,
        )
    if missing := [each for each in places if each not in range(AFTER_NORM, layers + 1)]:
        raise PairError(
            f"The head reads layer {missing[0]}, but its target has only {layers} layers.",
            remedy=_LAYERS_REMEDY,
        )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
