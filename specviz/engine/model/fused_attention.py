"""Triton kernels for the attention of a model step with few rows; see ``fused_products.py``."""

# Triton's stubs do not know indexing with None and static ranges.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl

from specviz.engine.model.fused_products import start_next, wait


@triton.jit
def _turned(heads, norm, cos, sin, epsilon, inside, WIDTH: tl.constexpr, HEAD_NORM: tl.constexpr):
    """Return the heads after RoPE `[rows, WIDTH]`; ``heads``: addresses of their first values."""
    wide = tl.arange(0, WIDTH)
    roll = (wide + WIDTH // 2) % WIDTH
    found = tl.load(heads[:, None] + wide[None, :], mask=inside, other=0.0).to(tl.float32)
    rolled = tl.load(heads[:, None] + roll[None, :], mask=inside, other=0.0).to(tl.float32)
    if HEAD_NORM:
        scale = tl.rsqrt(tl.sum(found * found, 1) / WIDTH + epsilon)[:, None]
        found = found * scale * tl.load(norm + wide).to(tl.float32)[None, :]
        rolled = rolled * scale * tl.load(norm + roll).to(tl.float32)[None, :]
    return found * cos + rolled * sin


@triton.jit
def _rotation(table, places, inside, WIDTH: tl.constexpr):
    at = table + places[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    return tl.load(at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _finish(
    best, total, mean, head, chunk, chunks, start, live, partial, sums, arrived, out,
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
):  # fmt: skip
    """Combine a key head's attention over chunks of the cache, and write the attention output.

    Several programs process a key head. The program that finishes last combines the chunks, in
    order.
    """
    query, wide = tl.arange(0, PADDED), tl.arange(0, WIDTH)
    GROUP: tl.constexpr = HEADS // KEY_HEADS
    last = chunks <= 1
    if chunks > 1:
        own = (head * chunks + chunk) * PADDED + query
        tl.store(partial + own[:, None] * WIDTH + wide[None, :], mean)
        tl.store(sums + own * 2, best)
        tl.store(sums + own * 2 + 1, total)
        tl.debug_barrier()
        last = tl.atomic_add(arrived + head, 1, sem="acq_rel") == live - 1
        tl.debug_barrier()
        if last:
            best = tl.full((PADDED,), float("-inf"), tl.float32)
            total = tl.zeros((PADDED,), tl.float32)
            mean = tl.zeros((PADDED, WIDTH), tl.float32)
            for each in range(start, start + live):
                held = (head * chunks + each) * PADDED + query
                top = tl.load(sums + held * 2, cache_modifier=".cg")
                share = tl.load(sums + held * 2 + 1, cache_modifier=".cg")
                part = tl.load(
                    partial + held[:, None] * WIDTH + wide[None, :], cache_modifier=".cg"
                )
                higher = tl.maximum(best, top)
                base = tl.where(higher == float("-inf"), 0.0, higher)
                shrunk, grown = tl.exp(best - base), tl.exp(top - base)
                total = total * shrunk + share * grown
                mean = mean * shrunk[:, None] + part * grown[:, None]
                best = higher
            tl.store(arrived + head, 0)
    if last:
        at = query % ROWS * HEADS * WIDTH + (head * GROUP + query // ROWS) * WIDTH
        tl.store(
            out + at[:, None] + wide[None, :],
            (mean / total[:, None]).to(out.dtype.element_ty),
            mask=(query < GROUP * ROWS)[:, None],
        )


@triton.jit
def attend_few(
    mixed, first_place, keys, values, cos, sin, query_norm, key_norm, out,
    partial, sums, arrived, chunks, row_stride, head_stride, window, epsilon, factor,
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, WIDTH: tl.constexpr,
    PADDED: tl.constexpr, NEW: tl.constexpr, CHUNK: tl.constexpr,
    HEAD_NORM: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Write new keys and values to the cache, and compute attention, for few queries per key head.

    A program processes ``CHUNK`` cache rows of one key head. The program of the last chunk also
    processes the new rows.
    """
    start_next(CHAINED)
    head, chunk = tl.program_id(0), tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KEY_HEADS
    first = tl.load(first_place)
    end = tl.maximum(first + ROWS, 1)  # cache rows that the last token sees
    start = tl.maximum(tl.maximum(first, 0) + 1 - window, 0) // CHUNK  # first chunk with a seen row
    live = tl.cdiv(end, CHUNK) - start
    if (chunk >= start) & (chunk < start + live):
        query, wide, new = tl.arange(0, PADDED), tl.arange(0, WIDTH), tl.arange(0, NEW)
        line = chunk * CHUNK + tl.arange(0, CHUNK)
        old = line < first
        cached = head * head_stride + line[:, None] * WIDTH + wide[None, :]
        key = tl.load(keys + cached, mask=old[:, None], other=0.0)
        value = tl.load(values + cached, mask=old[:, None], other=0.0)
        real = query < GROUP * ROWS
        token = tl.where(real, query % ROWS, 0)
        place = tl.maximum(first + token, 0)
        query_cos = _rotation(cos, place, real[:, None], WIDTH)
        query_sin = _rotation(sin, place, real[:, None], WIDTH)
        spot = first + new
        fresh = (new < tl.where(chunk == start + live - 1, ROWS, 0)) & (spot >= 0)
        new_cos = _rotation(cos, spot, fresh[:, None], WIDTH)
        new_sin = _rotation(sin, spot, fresh[:, None], WIDTH)
        wait(CHAINED)
        asked = _turned(
            mixed + token * row_stride + (head * GROUP + query // ROWS) * WIDTH,
            query_norm, query_cos, query_sin, epsilon, real[:, None], WIDTH, HEAD_NORM,
        ).to(keys.dtype.element_ty).to(tl.float32)  # fmt: skip
        given = mixed + new * row_stride + (HEADS + head) * WIDTH
        made = _turned(
            given, key_norm, new_cos, new_sin, epsilon, fresh[:, None], WIDTH, HEAD_NORM
        ).to(key.dtype)
        given += KEY_HEADS * WIDTH
        passed = tl.load(given[:, None] + wide[None, :], mask=fresh[:, None], other=0.0)
        written = head * head_stride + spot[:, None] * WIDTH + wide[None, :]
        tl.store(keys + written, made, mask=fresh[:, None])
        tl.store(values + written, passed, mask=fresh[:, None])
        best = tl.full((PADDED,), float("-inf"), tl.float32)
        total = tl.zeros((PADDED,), tl.float32)
        mean = tl.zeros((PADDED, WIDTH), tl.float32)
        for number in tl.static_range(GROUP * ROWS):
            own = query == number
            vector = tl.sum(tl.where(own[:, None], asked, 0.0), 0)
            at = tl.maximum(first + number % ROWS, 0)
            score = tl.sum(key.to(tl.float32) * vector[None, :], 1) * factor
            score = tl.where(old & (line <= at) & (line > at - window), score, float("-inf"))
            extra = tl.sum(made.to(tl.float32) * vector[None, :], 1) * factor
            extra = tl.where(fresh & (spot <= at) & (spot > at - window), extra, float("-inf"))
            top = tl.maximum(tl.max(score, 0), tl.max(extra, 0))
            base = tl.where(top == float("-inf"), 0.0, top)
            power, more = tl.exp(score - base), tl.exp(extra - base)
            found = tl.sum(power[:, None] * value.to(tl.float32), 0) + tl.sum(
                more[:, None] * passed.to(tl.float32), 0
            )
            best = tl.where(own, top, best)
            total = tl.where(own, tl.sum(power, 0) + tl.sum(more, 0), total)
            mean = tl.where(own[:, None], found[None, :], mean)
        _finish(
            best, total, mean, head, chunk, chunks, start, live, partial, sums, arrived, out,
            ROWS, HEADS, KEY_HEADS, WIDTH, PADDED,
        )  # fmt: skip


@triton.jit
def attend_many(
    mixed, first_place, keys, values, cos, sin, query_norm, key_norm, out,
    partial, sums, arrived, chunks, row_stride, head_stride, window, epsilon, factor,
    ROWS: tl.constexpr, HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, WIDTH: tl.constexpr,
    PADDED: tl.constexpr, TILE: tl.constexpr, CHUNK: tl.constexpr,
    HEAD_NORM: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Write new keys and values to the cache, and compute attention on the tensor cores.

    A program reads ``CHUNK`` cache rows of one key head, ``TILE`` at a time.
    """
    start_next(CHAINED)
    head, chunk = tl.program_id(0), tl.program_id(1)
    GROUP: tl.constexpr = HEADS // KEY_HEADS
    first = tl.load(first_place)
    end = tl.maximum(first + ROWS, 1)  # cache rows that the last token sees
    start = tl.maximum(tl.maximum(first, 0) + 1 - window, 0) // CHUNK  # first chunk with a seen row
    live = tl.cdiv(end, CHUNK) - start
    if (chunk >= start) & (chunk < start + live):
        query, wide = tl.arange(0, PADDED), tl.arange(0, WIDTH)
        real = query < GROUP * ROWS
        token = tl.where(real, query % ROWS, 0)
        place = tl.maximum(first + token, 0)
        query_cos = _rotation(cos, place, real[:, None], WIDTH)
        query_sin = _rotation(sin, place, real[:, None], WIDTH)
        wait(CHAINED)
        asked = _turned(
            mixed + token * row_stride + (head * GROUP + query // ROWS) * WIDTH,
            query_norm, query_cos, query_sin, epsilon, real[:, None], WIDTH, HEAD_NORM,
        ).to(keys.dtype.element_ty)  # fmt: skip
        best = tl.full((PADDED,), float("-inf"), tl.float32)
        total = tl.zeros((PADDED,), tl.float32)
        mean = tl.zeros((PADDED, WIDTH), tl.float32)
        upper = tl.minimum(chunk * CHUNK + CHUNK, end)
        for begin in range(chunk * CHUNK, upper, TILE):
            line = begin + tl.arange(0, TILE)
            fresh = (line >= first) & (line < first + ROWS)
            old = line < first
            cached = head * head_stride + line[:, None] * WIDTH + wide[None, :]
            key = tl.load(keys + cached, mask=old[:, None], other=0.0)
            value = tl.load(values + cached, mask=old[:, None], other=0.0)
            if (begin + TILE > first) & (begin < first + ROWS):
                given = mixed + (line - first) * row_stride + (HEADS + head) * WIDTH
                new_cos = _rotation(cos, line, fresh[:, None], WIDTH)
                new_sin = _rotation(sin, line, fresh[:, None], WIDTH)
                made = _turned(
                    given, key_norm, new_cos, new_sin, epsilon, fresh[:, None], WIDTH, HEAD_NORM
                ).to(key.dtype)
                given += KEY_HEADS * WIDTH
                passed = tl.load(given[:, None] + wide[None, :], mask=fresh[:, None], other=0.0)
                tl.store(keys + cached, made, mask=fresh[:, None])
                tl.store(values + cached, passed, mask=fresh[:, None])
                key = tl.where(fresh[:, None], made, key)
                value = tl.where(fresh[:, None], passed, value)
            seen = (line[None, :] <= place[:, None]) & (line[None, :] > place[:, None] - window)
            score = tl.dot(asked, tl.trans(key)) * factor
            score = tl.where(seen, score, float("-inf"))
            higher = tl.maximum(best, tl.max(score, 1))
            base = tl.where(higher == float("-inf"), 0.0, higher)
            power = tl.exp(score - base[:, None])
            shrunk = tl.exp(best - base)
            total = total * shrunk + tl.sum(power, 1)
            mean = mean * shrunk[:, None] + tl.dot(power.to(value.dtype), value)
            best = higher
        _finish(
            best, total, mean, head, chunk, chunks, start, live, partial, sums, arrived, out,
            ROWS, HEADS, KEY_HEADS, WIDTH, PADDED,
        )  # fmt: skip
