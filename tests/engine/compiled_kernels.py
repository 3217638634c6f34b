"""Compile the Triton kernels for a Hopper GPU, without one, and print facts of their machine code.

``python -m tests.engine.compiled_kernels`` prints JSON; ``test_fused_step.py`` runs it.
"""

from __future__ import annotations

import json
from typing import Any

# pyright: reportMissingTypeStubs=false

HALF, EXACT, NUMBER = "*bf16", "*fp32", "i32"
TYPES: dict[str, str] = {
    **dict.fromkeys(("squares_in", "squares", "partial", "sums"), EXACT),
    **dict.fromkeys(("count", "depth", "width", "window", "chunks"), NUMBER),
    **dict.fromkeys(("row_stride", "head_stride"), NUMBER),
    **dict.fromkeys(("epsilon", "factor"), "fp32"),
    "arrived": "*i32",
    "token_ids": "*i64",
    "first_place": "*i64",
}
PRODUCT: dict[str, Any] = {
    "ROWS": 1, "WIDE": 4, "DEEP": 512, "SQUARES": 1024, "NORMED": False, "BIASED": False,
    "GATED": False, "ADDED": False, "CHAINED": True,
}  # fmt: skip
MANY = PRODUCT | {"ROWS": 6, "PADDED": 16, "WIDE": 64, "DEEP": 128, "SQUARES": 64}
ATTENTION: dict[str, Any] = {
    "ROWS": 1, "HEADS": 32, "KEY_HEADS": 32, "WIDTH": 32, "CHUNK": 512, "HEAD_NORM": False,
    "CHAINED": True,
}  # fmt: skip
GROUPED = ATTENTION | {"ROWS": 6, "KEY_HEADS": 8, "WIDTH": 128, "CHUNK": 64, "HEAD_NORM": True}
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    "embedding": ("embed", {"WIDE": 4, "TILES": 1024, "CHAINED": True}, {}),
    "gated product of two rows": (
        "product_of_few", PRODUCT | {"ROWS": 2, "GATED": True, "NORMED": True}, {},
    ),
    "added product of one row": ("product_of_few", PRODUCT | {"ADDED": True, "BIASED": True}, {}),
    "gated product of six rows": (
        "product_of_many", MANY | {"SPLIT": 1, "GATED": True, "NORMED": True}, {"num_stages": 3},
    ),
    "shared product of six rows": (
        "product_of_many", MANY | {"SPLIT": 4, "ADDED": True}, {"num_stages": 3},
    ),
    "attention of one row": ("attend_few", ATTENTION | {"PADDED": 1, "NEW": 1}, {"num_warps": 8}),
    "attention of six rows": ("attend_many", GROUPED | {"PADDED": 32, "TILE": 64}, {}),
}  # fmt: skip


def code_of(name: str, constants: dict[str, Any], options: dict[str, int]) -> dict[str, int]:
    """Compile a kernel; count the instructions that chain kernels and those of matrix units."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from specviz.engine.model import fused_attention, fused_products

    module = fused_attention if name.startswith("attend") else fused_products
    kernel: Any = getattr(module, name)
    names = list(kernel.arg_names)
    types = {each: TYPES.get(each, HALF) for each in names}
    source = ASTSource(
        kernel,
        {each: "constexpr" if each in constants else types[each] for each in names},
        {(names.index(each),): value for each, value in constants.items()},
    )
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]
    words = ("griddepcontrol.wait", "griddepcontrol.launch_dependents")
    return {word: code.count(word) for word in words} | {
        "matrix units": code.count("wgmma.mma") + code.count("mma.sync")
    }


if __name__ == "__main__":
    print(json.dumps({label: code_of(*variant) for label, variant in VARIANTS.items()}))
