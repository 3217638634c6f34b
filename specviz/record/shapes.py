"""The shape of a round's candidates: a chain, several chains from one position, or a tree.

A shape lists the children per node, depth by depth: (1, 1, 1) is a chain of γ = 3, (M, 1, 1) are M
parallel chains. As text, a shape is written ``3x2x1``. Nodes are numbered depth by depth, from 0.
A dynamic tree has no shape. It is written ``8x24``: its width and its number of candidates.
"""

from __future__ import annotations

import re
from itertools import accumulate
from operator import mul

from specviz.errors import ConfigError
from specviz.record.limits import TREE_CANDIDATES, TREE_WIDTH

Shape = tuple[int, ...]

MAX_NODES = 1024
MAX_BRANCHES = 64
_TEXT = re.compile(r"\d{1,6}(x\d{1,6})*")


def shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def parse_shape(text: str) -> Shape:
    """Parse the shape of a tree, such as ``3x2x1``; empty text gives an empty shape.

    Raises:
        ConfigError: The text is not a tree.
    """
    if not text:
        return ()
    if not _TEXT.fullmatch(text):
        raise ConfigError(f"{text[:40]!r} is not a tree.", remedy="Write it like 3x2x1x1.")
    return tuple(map(int, text.split("x")))


def check_shape(shape: Shape, most_deep: int) -> None:
    """Raise ConfigError if a tree is too deep or too large, or has an invalid branching."""
    if any(isinstance(each, bool) or not isinstance(each, int) for each in shape):
        raise ConfigError(
            "A tree's branching is not a whole number.", remedy="Write it like 3x2x1."
        )
    if not all(1 <= each <= MAX_BRANCHES for each in shape):
        raise ConfigError(
            f"A tree has a branching of {next(n for n in shape if not 1 <= n <= MAX_BRANCHES)}.",
            remedy=f"Give 1 to {MAX_BRANCHES} children at every depth.",
        )
    if len(shape) > most_deep:
        raise ConfigError(
            f"A tree is {len(shape)} deep.", remedy=f"Give {most_deep} depths or fewer."
        )
    if num_nodes(shape) > MAX_NODES:
        raise ConfigError(
            f"The tree {shape_text(shape)} has {num_nodes(shape):,} nodes.",
            remedy=f"Give a tree of {MAX_NODES:,} nodes or fewer.",
        )


def parse_dynamic_tree(text: str) -> Shape:
    """Parse the width and the number of candidates of a dynamic tree, such as ``8x24``.

    Empty text gives an empty tuple.

    Raises:
        ConfigError: The text is not a dynamic tree.
    """
    found = tuple(map(int, text.split("x"))) if _TEXT.fullmatch(text) else ()
    if text and len(found) != 2:
        raise ConfigError(f"{text[:40]!r} is not a dynamic tree.", remedy="Write it like 8x24.")
    return found


def check_dynamic_tree(tree: Shape) -> None:
    """Raise ConfigError if the width or the number of candidates is out of range."""
    if not tree:
        return
    if len(tree) != 2 or any(isinstance(n, bool) or not isinstance(n, int) for n in tree):
        raise ConfigError(
            "A dynamic tree is not a width and a number of candidates.",
            remedy="Write it like 8x24.",
        )
    if tree[0] not in TREE_WIDTH:
        raise ConfigError(
            f"A dynamic tree has a width of {tree[0]}.",
            remedy=f"Give a width of {TREE_WIDTH}, such as 8x24.",
        )
    if tree[1] not in TREE_CANDIDATES:
        raise ConfigError(
            f"A dynamic tree has {tree[1]:,} candidates.",
            remedy=f"Give {TREE_CANDIDATES} candidates, such as 8x24.",
        )


def num_nodes(shape: Shape) -> int:
    return sum(accumulate(shape, mul))
