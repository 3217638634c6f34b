"""What every run has in common, whether specviz or another engine decoded it."""

from __future__ import annotations

from specviz.values import Value


class RunFacts(Value):
    """Facts of a run by specviz or another engine; unreported values are None or empty."""

    name: str  # of the pair; for another engine, of its model
    engine: str | None  # another engine with its version; None for specviz
    place: str  # the device and its threads; for another engine, its address
    environment: tuple[str, ...]  # machine and dtype; for another engine, its title
    settings: tuple[str, ...]  # γ, sampling and method, as short labels
    prompt: str
    prompt_ids: tuple[int, ...]
    gamma: int | None
    temperature: float
    seed: int
    num_tokens: int | None


def sampling_words(temperature: float) -> str:
    return "greedy" if temperature == 0 else f"T {temperature:g}"
