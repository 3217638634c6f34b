"""Simulated sizes, to which a model is enlarged without changing its output.

A simulated size ("body" in names) is ``none``, or the name of a well-known model, or a number of
parameters such as ``90M`` or ``1.2B``. It sets the width, the feed-forward units and the layers.
The vocabulary and the width of an attention head do not change. So a size that is named after a
model has a different number of parameters for each model that it enlarges.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator

from specviz.errors import ConfigError
from specviz.record.numbers import COUNT
from specviz.values import Value

NO_BODY = "none"
MIN_PARAMETERS, MAX_PARAMETERS = 10_000_000, 100_000_000_000
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([MB])", re.IGNORECASE)
_UNITS = {"M": 1_000_000, "B": 1_000_000_000}
_FEED_FORWARD_STEP = 64
_WIDTH_PER_LAYER = 64  # so a model that is twice as deep is twice as wide
_FEED_FORWARD = 8 / 3  # of the width, as in Llama


class Shape(Value):
    width: int
    feed_forward: int
    layers: int


class NamedBody(Value):
    name: str
    like: str  # the model whose shape this body has
    shape: Shape


class ModelShape(Value):
    """The dimensions of a Llama-like model. They determine the dimensions of an enlarged model."""

    shape: Shape
    heads: int
    key_heads: int
    head_width: int
    vocabulary: int  # rows of the embedding
    tied: bool  # embedding and output share one matrix
    quantised: tuple[float | None, float | None] = (None, None)
    """Bytes per weight at the model's own size and when enlarged; None without quantisation."""

    def bytes_per_weight(self, body: str) -> float | None:
        """Return the bytes per weight at this simulated size; None without quantisation."""
        return self.quantised[body != NO_BODY]

    @property
    def group_width(self) -> int:
        """The total width of the query heads that share a key head.

        The width of an enlarged model is a multiple of this width.
        """
        return self.head_width * self.heads // self.key_heads


class BodyInfo(Value):
    """The simulated size of a run's model.

    ``own_parameters``: the number of parameters of the model before it was enlarged.
    """

    name: str
    shape: Shape
    parameters: int
    own_parameters: int
    step_bytes: int  # weights that a step of one token reads

    @property
    def label(self) -> str:
        size = COUNT.shown(self.parameters)
        named = NAMED_BODIES.get(self.name)
        return f"{size}, shaped after {named.like}" if named else size


def _named(name: str, like: str, width: int, feed_forward: int, layers: int) -> NamedBody:
    return NamedBody(
        name=name, like=like, shape=Shape(width=width, feed_forward=feed_forward, layers=layers)
    )


NAMED_BODIES: dict[str, NamedBody] = {
    each.name: each
    for each in (
        _named("smollm2-135m", "SmolLM2-135M", 576, 1536, 30),
        _named("smollm2-360m", "SmolLM2-360M", 960, 2560, 32),
        _named("qwen2.5-0.5b", "Qwen2.5-0.5B", 896, 4864, 24),
        _named("llama-3.2-1b", "Llama-3.2-1B", 2048, 8192, 16),
        _named("llama-3.2-3b", "Llama-3.2-3B", 3072, 8192, 28),
        _named("llama-3.1-8b", "Llama-3.1-8B", 4096, 14336, 32),
    )
}


def sized_model(size: str) -> str:
    """Return a size with its article and noun, such as "an 88 M model"."""
    article = "an" if re.match(r"8|1[18](?!\d)", size) else "a"
    return f"{article} {size} model"


def body_name(text: str) -> str:
    """Return the normalized name of a simulated size: ``1200m`` becomes ``1.2B``.

    Raises:
        ConfigError: The text is not a simulated size, or the size is out of range.
    """
    typed = text.strip().lower()
    if typed == NO_BODY or typed in NAMED_BODIES:
        return typed
    size = _parameters(typed)
    if size is None:
        raise ConfigError(
            f"{text[:40]!r} is not a simulated size.",
            remedy=f"Give a size such as 90M or 1.2B, {NO_BODY}, or {', '.join(NAMED_BODIES)}.",
        )
    if not MIN_PARAMETERS <= size <= MAX_PARAMETERS:
        raise ConfigError(
            f"A simulated size of {text.strip()} is out of range.",
            remedy="Give a size from 10M to 100B.",
        )
    unit = "M" if size < _UNITS["B"] else "B"
    return f"{size / _UNITS[unit]:.3f}".rstrip("0").rstrip(".") + unit


def shape_of(body: str, model: ModelShape) -> Shape:
    """Return the dimensions of ``model`` when it is enlarged to the simulated size ``body``.

    Raises:
        ConfigError: The simulated size is smaller than the model.
    """
    named, size = NAMED_BODIES.get(body), _parameters(body)
    if named is not None:
        shape = Shape(
            width=_rounded_up(named.shape.width, model.group_width),
            feed_forward=named.shape.feed_forward,
            layers=named.shape.layers,
        )
    else:
        assert size is not None, "a body is named, or is a size"
        shape = _shape_of_size(size, model)
    own = model.shape
    if (
        shape.width < own.width
        or shape.feed_forward < own.feed_forward
        or (shape.layers < own.layers)
    ):
        raise _too_small(body, model)
    return shape


def heads_of(shape: Shape, model: ModelShape) -> int:
    """Return the number of query heads: width / head width, but no fewer than the model has."""
    return max(model.heads, shape.width // model.head_width)


def parameters_of(shape: Shape, model: ModelShape) -> int:
    """Return the number of parameters in the matrices and norms of the enlarged model."""
    width, heads = shape.width, heads_of(shape, model)
    key_heads = heads * model.key_heads // model.heads
    attention = 2 * width * (heads + key_heads) * model.head_width
    layer = attention + 3 * width * shape.feed_forward + 2 * width
    tables = 1 if model.tied else 2
    return shape.layers * layer + tables * model.vocabulary * width + width


def _parameters(text: str) -> int | None:
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    return round(float(found[1]) * _UNITS[found[2].upper()])


@functools.lru_cache(maxsize=256)  # pages look up all offered sizes on every rerun
def _shape_of_size(size: int, model: ModelShape) -> Shape:
    """Return a shape of about ``size`` parameters with roughly the usual proportions."""
    found = min(
        _candidates(size, model), key=lambda each: _penalty(each, size, model), default=None
    )
    if found is None or parameters_of(found, model) > 1.25 * size:
        raise _too_small(f"{size:,} parameters", model)
    return found


def _candidates(size: int, model: ModelShape) -> Iterator[Shape]:
    own, step = model.shape, math.lcm(model.group_width, _FEED_FORWARD_STEP)
    for width in range(_rounded_up(own.width, step), own.width + 300 * step, step):
        wide = _rounded_up(round(_FEED_FORWARD * width), _FEED_FORWARD_STEP)
        feed_forward = max(own.feed_forward, wide)
        one, two = (
            parameters_of(Shape(width=width, feed_forward=feed_forward, layers=n), model)
            for n in (1, 2)
        )
        layers = max(own.layers, round((size - one) / (two - one)) + 1)
        yield Shape(width=width, feed_forward=feed_forward, layers=layers)


def _penalty(shape: Shape, size: int, model: ModelShape) -> float:
    """Return how far a shape is from ``size`` parameters and the usual proportions; 0 is best.

    Widths of 1, 4, 16, … times the model's width are preferred, because they scale weights by
    powers of two, so that no weight is rounded.
    """
    size_error = abs(math.log(parameters_of(shape, model) / size))
    proportion_error = abs(math.log(shape.layers * _WIDTH_PER_LAYER / shape.width))
    exact = math.log(shape.width / model.shape.width, 4).is_integer()
    return 2 * size_error + 0.2 * proportion_error + (0.0 if exact else 0.05)


def _rounded_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _too_small(body: str, model: ModelShape) -> ConfigError:
    own = model.shape
    return ConfigError(
        f"A simulated size of {body} is smaller than the model, which is {own.width} wide, with "
        f"{own.feed_forward} feed-forward units and {own.layers} layers.",
        remedy="Give a larger size.",
    )
