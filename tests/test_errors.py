"""Errors are one short line whatever they quote, and survive pickling."""

from __future__ import annotations

import pickle

from specviz.errors import PairError


def test_long_quotes_are_shortened() -> None:
    error = PairError(f"The token {'a' * 100_000!r} is unknown.", remedy="Choose another.")
    message = str(error)
    assert len(message) < 650
    assert message.startswith("The token 'aaa")
    assert message.endswith("aaa' is unknown. Choose another.")
    assert str(PairError("Short.", remedy="So.")) == "Short. So."


def test_an_error_survives_a_pipe() -> None:
    error = PairError("x" * 10_000, remedy="Do.")
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), other.culprit, other.remedy) == (PairError, error.culprit, "Do.")
