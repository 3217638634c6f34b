"""The weights of a model that runs through transformers, and the choice of its step."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel

from specviz.engine.model.library_step import LibraryStep, library_capabilities
from specviz.engine.model.recurrent_layers import has_recurrent_layers
from specviz.engine.model.recurrent_step import RecurrentStep
from specviz.engine.model.step_capabilities import StepCapabilities
from specviz.engine.model.steps import StepWeights


@dataclass(frozen=True, slots=True, eq=False)
class LibraryWeights(StepWeights):
    """The weights of a model that runs through transformers: the transformers model itself."""

    model: PreTrainedModel

    kind = "library"

    @property
    def capabilities(self) -> StepCapabilities:
        return library_capabilities(self.model)

    def step(self, vocabulary: int, capacity: int) -> LibraryStep:
        del capacity
        recurrent = has_recurrent_layers(self.model)
        return (RecurrentStep if recurrent else LibraryStep)(self.model, vocabulary)
