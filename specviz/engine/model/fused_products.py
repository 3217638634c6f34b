"""Triton kernels of a model step with few rows: embedding and products.

A step of one token reads every weight once, so memory bandwidth limits it, and any other kernel
between two products costs time. A layer is five kernels: the product for queries, keys and values;
attention with rotation and cache update (``fused_attention.py``); three more products. RMSNorm is
part of the products. The kernel that writes a row also writes two things: the row times the norm's
weights, and sums of the row's squares. The product that reads the row divides by the root of the
mean square.

The kernel of a product exists in two versions, and so does the kernel of attention. One version is
for few rows and does not use tensor cores. The other is for more rows and pads the rows to 16 for
the tensor cores.

With ``CHAINED``, a kernel may start while the previous kernel still runs (programmatic dependent
launch). The new kernel first loads data that the previous kernel does not write, for example
weights. Then the new kernel waits until the previous kernel has finished.
"""

# Triton's stubs do not know indexing with None and static ranges.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import cuda as device


@triton.jit
def start_next(CHAINED: tl.constexpr):
    if CHAINED:
        device.gdc_launch_dependents()


@triton.jit
def wait(CHAINED: tl.constexpr):
    if CHAINED:
        device.gdc_wait()


@triton.jit
def embed(
    token_ids, table, norm, stream, scaled, squares,
    width, WIDE: tl.constexpr, TILES: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Write each token's embedding, the embedding times the norm's weights, and sums of squares."""
    start_next(CHAINED)
    wait(CHAINED)
    row, tile = tl.program_id(0), tl.program_id(1)
    column = tile * WIDE + tl.arange(0, WIDE)
    inside = column < width
    found = tl.load(table + tl.load(token_ids + row) * width + column, mask=inside, other=0.0)
    exact = found.to(tl.float32)
    weights = tl.load(norm + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(stream + row * width + column, found, mask=inside)
    tl.store(scaled + row * width + column, (exact * weights).to(found.dtype), mask=inside)
    tl.store(squares + row * TILES + tile, tl.sum(exact * exact))


@triton.jit
def _weight_rows(tile, count, WIDE: tl.constexpr, GATED: tl.constexpr):
    """Return the weight rows that a tile reads; with GATED, half gate rows and half up rows."""
    line = tl.arange(0, WIDE)
    if GATED:
        HALF: tl.constexpr = WIDE // 2
        return tl.where(line < HALF, tile * HALF + line, count + tile * HALF + line - HALF)
    return tile * WIDE + line


@triton.jit
def _columns(tile, WIDE: tl.constexpr, GATED: tl.constexpr):
    """Return the columns that a tile writes; with GATED, half as many as the rows it reads."""
    WRITTEN: tl.constexpr = WIDE // 2 if GATED else WIDE
    return tile * WRITTEN + tl.arange(0, WRITTEN)


@triton.jit
def _norm_weights(norm, tile, count, WIDE: tl.constexpr, GATED: tl.constexpr, ADDED: tl.constexpr):
    """Return the weights of the next norm for the columns of a tile; zeros if ADDED is false."""
    column = _columns(tile, WIDE, GATED)
    return tl.load(norm + column, mask=(column < count) & ADDED, other=0.0).to(tl.float32)


@triton.jit
def _read_squares(
    squares_in, ROWS: tl.constexpr, PADDED: tl.constexpr, SQUARES: tl.constexpr,
    NORMED: tl.constexpr,
):  # fmt: skip
    """Return the sums of squares `[PADDED, SQUARES]` of the rows; zeros if there is no norm."""
    if NORMED:
        row, spot = tl.arange(0, PADDED), tl.arange(0, SQUARES)
        at = squares_in + row[:, None] * SQUARES + spot[None, :]
        return tl.load(at, mask=(row < ROWS)[:, None], other=0.0)
    return tl.zeros((PADDED, SQUARES), tl.float32)


@triton.jit
def _read_stream(
    stream, tile, count, ROWS: tl.constexpr, PADDED: tl.constexpr, WIDE: tl.constexpr,
    GATED: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """Return the tile `[PADDED, WIDE]` of the residual stream; zeros if ADDED is false."""
    row, column = tl.arange(0, PADDED), _columns(tile, WIDE, GATED)
    inside = (row < ROWS)[:, None] & (column < count)[None, :] & ADDED
    return tl.load(stream + row[:, None] * count + column[None, :], mask=inside, other=0.0)


@triton.jit
def _write(
    products, tile, sums, before, weights, bias, out, stream, scaled, squares, count, depth,
    epsilon,
    ROWS: tl.constexpr, PADDED: tl.constexpr, WIDE: tl.constexpr, SQUARES: tl.constexpr,
    NORMED: tl.constexpr, BIASED: tl.constexpr, GATED: tl.constexpr, ADDED: tl.constexpr,
):  # fmt: skip
    """Complete a tile `[WIDE, PADDED]` of a matrix product as the flags request, and write it.

    NORMED: divide by the root mean square of the norm's inputs. GATED: write silu(gate) * up.
    ADDED: add the products to ``stream``, in place. Otherwise write to ``out`` `[ROWS, count]`.
    """
    row, column = tl.arange(0, PADDED), _columns(tile, WIDE, GATED)
    if NORMED:
        products *= tl.rsqrt(tl.sum(sums, 1) / depth + epsilon)[None, :]
    if BIASED:
        lines = _weight_rows(tile, count, WIDE, GATED)
        inside = lines < count * (2 if GATED else 1)
        products += tl.load(bias + lines, mask=inside, other=0.0).to(tl.float32)[:, None]
    if GATED:
        halves = tl.permute(tl.reshape(products, (2, WIDE // 2, PADDED)), (1, 2, 0))
        gate, up = tl.split(halves)
        found = tl.trans(gate * tl.sigmoid(gate) * up)
    else:
        found = tl.trans(products)
    inside = (row < ROWS)[:, None] & (column < count)[None, :]
    places = row[:, None] * count + column[None, :]
    if ADDED:
        rounded = (found + before.to(tl.float32)).to(stream.dtype.element_ty)
        exact = tl.where(inside, rounded.to(tl.float32), 0.0)
        tl.store(stream + places, rounded, mask=inside)
        tl.store(scaled + places, (exact * weights[None, :]).to(rounded.dtype), mask=inside)
        tl.store(squares + row * SQUARES + tile, tl.sum(exact * exact, 1), mask=row < ROWS)
    else:
        rounded = found.to(scaled.dtype.element_ty)
        tl.store(out + places, rounded.to(out.dtype.element_ty), mask=inside)


@triton.jit
def product_of_few(
    rows_in, squares_in, weight, bias, out, norm, stream, scaled, squares, count, depth, epsilon,
    ROWS: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr, SQUARES: tl.constexpr,
    NORMED: tl.constexpr, BIASED: tl.constexpr, GATED: tl.constexpr, ADDED: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    """Multiply one or two rows `[ROWS, depth]` by weights `[count, depth]`; see ``_write``."""
    start_next(CHAINED)
    tile, place = tl.program_id(0), tl.arange(0, DEEP)
    lines = _weight_rows(tile, count, WIDE, GATED)
    kept = (lines < count * (2 if GATED else 1))[:, None]
    source = weight + lines[:, None] * depth + place[None, :]
    read = tl.load(
        source, mask=kept & (place < depth)[None, :], other=0.0, eviction_policy="evict_first"
    ).to(tl.float32)
    weights = _norm_weights(norm, tile, count, WIDE, GATED, ADDED)
    wait(CHAINED)
    given = tl.load(rows_in + place, mask=place < depth, other=0.0).to(tl.float32)
    squared = _read_squares(squares_in, ROWS, ROWS, SQUARES, NORMED)
    before = _read_stream(stream, tile, count, ROWS, ROWS, WIDE, GATED, ADDED)
    sums = read * given[None, :]
    second = sums
    if ROWS == 2:
        given = tl.load(rows_in + depth + place, mask=place < depth, other=0.0).to(tl.float32)
        second = read * given[None, :]
    for first in range(DEEP, depth, DEEP):
        inside = first + place < depth
        read = tl.load(
            source + first, mask=kept & inside[None, :], other=0.0, eviction_policy="evict_first"
        ).to(tl.float32)
        given = tl.load(rows_in + first + place, mask=inside, other=0.0).to(tl.float32)
        sums += read * given[None, :]
        if ROWS == 2:
            given = tl.load(rows_in + depth + first + place, mask=inside, other=0.0).to(tl.float32)
            second += read * given[None, :]
    found = tl.sum(sums, 1)[:, None]
    if ROWS == 2:
        found = tl.join(tl.sum(sums, 1), tl.sum(second, 1))
    _write(
        found, tile, squared, before, weights, bias, out, stream, scaled, squares, count, depth,
        epsilon, ROWS, ROWS, WIDE, SQUARES, NORMED, BIASED, GATED, ADDED,
    )  # fmt: skip


@triton.jit
def product_of_many(
    rows_in, squares_in, weight, bias, out, norm, stream, scaled, squares, partial, arrived,
    count, depth, epsilon,
    ROWS: tl.constexpr, PADDED: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr,
    SPLIT: tl.constexpr, SQUARES: tl.constexpr, NORMED: tl.constexpr, BIASED: tl.constexpr,
    GATED: tl.constexpr, ADDED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Multiply rows `[ROWS, depth]` by weights `[count, depth]`; see ``_write``.

    ``SPLIT`` programs share a tile. The program that finishes last adds up all parts, in order.
    """
    tile, part = tl.program_id(0), tl.program_id(1)
    share = tl.cdiv(tl.cdiv(depth, DEEP), SPLIT) * DEEP
    begin = part * share
    end = tl.minimum(begin + share, depth)
    row, place = tl.arange(0, PADDED), tl.arange(0, DEEP)
    lines = _weight_rows(tile, count, WIDE, GATED)
    kept = lines < count * (2 if GATED else 1)
    weights = _norm_weights(norm, tile, count, WIDE, GATED, ADDED)
    wait(CHAINED)
    squared = _read_squares(squares_in, ROWS, PADDED, SQUARES, NORMED)
    before = _read_stream(stream, tile, count, ROWS, PADDED, WIDE, GATED, ADDED)
    found = tl.zeros((WIDE, PADDED), tl.float32)
    for first in range(begin, end, DEEP):
        at = first + place
        read = tl.load(
            weight + lines[:, None] * depth + at[None, :],
            mask=kept[:, None] & (at < end)[None, :],
            other=0.0,
            eviction_policy="evict_first",
        )
        given = tl.load(
            rows_in + row[None, :] * depth + at[:, None],
            mask=(row < ROWS)[None, :] & (at < end)[:, None],
            other=0.0,
        )
        found = tl.dot(read, given, found)
    start_next(CHAINED)  # with an earlier start, some multiprocessors would get more programs
    last = True
    if SPLIT > 1:
        held = tl.arange(0, WIDE)[:, None] * PADDED + row[None, :]
        tl.store(partial + (tile * SPLIT + part) * WIDE * PADDED + held, found)
        tl.debug_barrier()
        last = tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLIT - 1
        tl.debug_barrier()
        if last:
            found = tl.zeros((WIDE, PADDED), tl.float32)
            for each in tl.static_range(SPLIT):
                found += tl.load(
                    partial + (tile * SPLIT + each) * WIDE * PADDED + held, cache_modifier=".cg"
                )
            tl.store(arrived + tile, 0)
    if last:
        _write(
            found, tile, squared, before, weights, bias, out, stream, scaled, squares, count,
            depth, epsilon, ROWS, PADDED, WIDE, SQUARES, NORMED, BIASED, GATED, ADDED,
        )  # fmt: skip
