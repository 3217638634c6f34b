"""Compile the kernels before their first use, so that no timed path includes compilation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from specviz.kernels.ahead import is_compiling, wait_for_compilation
from specviz.kernels.arrays import STORED_ONES, scratch
from specviz.kernels.draws import draw_rows, judge_chain
from specviz.kernels.kept_code import mark_complete
from specviz.kernels.packed import (
    make_room,
    multiply_packed,
    product_function,
    row_function,
    x_bytes,
)
from specviz.kernels.packed_types import LANES, PACKED_TYPES, SHORT, pack
from specviz.kernels.product import multiply
from specviz.kernels.simd import has_half
from specviz.kernels.step import CHAIN, LAYER_COLUMNS, MOST_ROWS, NO_PATHS, step
from specviz.kernels.survey import survey

DEFAULT_NUMBER_TYPE = "float32"  # the dtype of the pair that ships with specviz


_withheld = ContextVar("withheld", default=False)


@contextmanager
def without_kernels() -> Iterator[None]:
    """Make ``ready`` return False in this block, so that weights taken in it run through torch."""
    token = _withheld.set(True)
    try:
        yield
    finally:
        _withheld.reset(token)


def are_available() -> bool:
    """Return whether kernels may be used: False in a block of ``without_kernels``."""
    return not _withheld.get()


def ready(number_type: str) -> bool:
    """Compile the kernels for this dtype, and check them; return False if they do not work here.

    The first call on a machine takes seconds; later processes load the kernels from disk.
    """
    return are_available() and _work(number_type)


@cache
def _work(number_type: str) -> bool:
    wait_for_compilation()
    if number_type == "float16" and not has_half():
        return False
    try:
        _check_multiply(STORED_ONES[number_type])
        _check_step(number_type)
        if number_type == "float32":
            _check_step(number_type, tiled=True)
    except Exception:  # a compiler may raise anything on an untested machine
        return False
    if not _survey_works():
        return False
    if number_type == DEFAULT_NUMBER_TYPE:
        mark_complete()
    return True


@cache
def packed_ready() -> bool:
    """Compile a product with quantised weights; return False if it does not work here."""
    wait_for_compilation()
    try:
        _check_packed()
    except Exception:
        return False
    return True


def survey_ready() -> bool:
    """Return whether the kernels of records and draws, which all dtypes share, work.

    While a child process compiles the kernels, the result is False. Otherwise, the first call loads
    or compiles them.
    """
    return not is_compiling() and _survey_works()


def draws_ready() -> bool:
    """Return whether the kernels of draws and verdicts work here and are loaded.

    They are loaded with a model's kernels or with the first record. Unlike ``survey_ready``, this
    function never loads them, because it is called in timed steps.
    """
    return _survey_works.cache_info().currsize > 0 and _survey_works()


@cache
def _survey_works() -> bool:
    wait_for_compilation()
    try:
        _check_survey()
        _check_draws()
    except Exception:
        return False
    return True


def _check_multiply(one: Any) -> None:
    weight, out = np.full((4, 4), one), scratch(1, 4)
    multiply(one, 0, 1, weight.ctypes.data, 0, np.ones((1, 4), np.float32), out)
    if not (out == 4.0).all():
        raise ArithmeticError("The product kernel returned a wrong result.")


def _check_packed() -> None:
    raw = np.full((LANES, 34), 2, np.uint8)  # 32 codes of 2
    raw[:, :2] = np.full((LANES, 1), 0.5, np.float16).view(np.uint8)
    blocks = pack(PACKED_TYPES["Q8_0"], raw, SHORT)
    table = np.array([1, blocks.ctypes.data, product_function("Q8_0"), row_function("Q8_0"), LANES])
    out, x = scratch(1, LANES), np.ones((1, SHORT), np.float32)
    room = np.empty((1, x_bytes(1, SHORT)), np.uint8)
    multiply_packed(0, 1, table.ctypes.data, 0, x, room, out)
    if not np.allclose(out, SHORT):
        raise ArithmeticError("The product with quantised weights returned a wrong result.")


def _check_step(number_type: str, *, tiled: bool = False) -> None:
    one, size, rows = STORED_ONES[number_type], 300, 5 * LANES
    weight, caches = np.full((rows, size), one), np.full((1, 1, 1, 4, 4), one)
    head, expected = weight, np.full(rows - 1, float(size))
    if tiled:
        head = np.repeat(np.arange(rows, dtype=np.float32), size).reshape(rows, size)
        expected *= np.arange(rows - 1)
        head = np.ascontiguousarray(head.reshape(-1, LANES, size).swapaxes(1, 2))
    logits = scratch(1, rows - 1)
    step(
        0,
        1,
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.array([[0, 1, 0, 0]]),
        np.zeros(1, np.int64),
        0,
        CHAIN,
        NO_PATHS,
        np.zeros((0, len(LAYER_COLUMNS)), np.int64),
        np.array([*[weight.ctypes.data] * 2, head.ctypes.data, 0, tiled], np.int64),
        np.zeros(2, np.float32),
        np.float32(1.0),
        caches,
        caches,
        *[scratch(4, 4) for _ in ("cos", "sin")],
        scratch(MOST_ROWS, size),
        scratch(1, MOST_ROWS, size),
        scratch(MOST_ROWS, 12),
        scratch(MOST_ROWS, 4),
        scratch(1, MOST_ROWS, 4),
        scratch(MOST_ROWS, 2 * size),
        scratch(MOST_ROWS, size),
        logits,
        np.full(1, -1),
        scratch(1, size),
        make_room(number_type, 1, MOST_ROWS, 2 * size, packed=False),
    )
    if not np.allclose(logits, expected):
        raise ArithmeticError("The step kernel returned a wrong result.")


def _check_survey() -> None:
    logits, facts = np.full((1, 4), 7.0, np.float32), np.empty((7, 1))
    survey(
        logits,
        logits,
        logits,
        logits,
        2,
        scratch(2, 4),
        np.zeros(1, np.int64),
        scratch(3, 1, 4),
        np.empty((3, 1, 4), np.int64),
        facts,
    )
    if facts[0, 0] != 0.25 or facts[6, 0] != 0.0:
        raise ArithmeticError("The survey kernel returned a wrong result.")


def _check_draws() -> None:
    probs, uniforms = np.full((2, 4), 0.25, np.float32), np.full(2, 0.5, np.float32)
    drawn, values = np.empty(2, np.int64), np.empty(8)
    draw_rows(probs, uniforms, drawn)
    judge_chain(probs[:1], probs, drawn[:1], uniforms[:1], 0.5, False, values)
    if drawn.tolist() != [2, 2] or values.tolist() != [2.0, 0.25, 0.25, 1.0, 1.0, 2.0, 0.25, 0.25]:
        raise ArithmeticError("The kernels of draws and verdicts returned a wrong result.")
