"""The functions that a file of torch.export may name. PyTorch resolves a name as an attribute path
from `torch` and calls the result, so names are restricted to operations.
"""

from __future__ import annotations

import re

import torch

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
OPERATION = re.compile(rf"torch\.ops\.({IDENTIFIER})\.({IDENTIFIER})\.({IDENTIFIER})", re.ASCII)
NAMESPACES = frozenset(("aten", "prims", "quantized_decomposed"))
OF_GRAPHS = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in (
        "associative_scan",
        "auto_functionalized",
        "auto_functionalized_v2",
        "cond",
        "flex_attention",
        "invoke_subgraph",
        "map",
        "map_impl",
        "out_dtype",
        "scan",
        "while_loop",
        "wrap_with_autocast",
        "wrap_with_set_grad_enabled",
    )
)
OF_SIZES = frozenset(
    [f"torch.sym_{name}" for name in ("float", "int", "ite", "max", "min", "not", "sqrt", "sum")]
    + [f"math.{name}" for name in ("ceil", "floor", "sqrt", "trunc")]
    + [
        "_operator." + name
        for name in (
            "add and_ eq floordiv ge getitem gt le lshift lt mod mul ne neg or_ pos pow "
            "rshift sub truediv"
        ).split()
    ]
)
OF_USERS: set[str] = set()
"""The operations that `xlac.register_op` registered in this process."""
WITH_TEXT = re.compile(
    r"_assert_\w+|_functional_assert_\w+|_convolution_mode|_linalg_\w+|_segment_reduce_backward|_sparse_mm\w*|conv[123]d|div_?|divide_?|"
    r"einsum|fft_\w+|gelu_?|gelu_backward|index_reduce_?|linalg_\w+|meshgrid|nanquantile|pad|pad_sequence|quantile|scatter_?|"
    r"scatter_reduce_?|searchsorted|segment_reduce|stft"
)
"""The operations that may have text arguments, which select modes. For other operations text could
name a file (aten::save).
"""


def operation(name: str) -> str:
    """The name, if it is that of an operation on tensors, graphs or sizes. Raises ValueError for
    anything else.
    """
    if name in OF_GRAPHS or name in OF_SIZES or name in OF_USERS:
        return name
    parts = OPERATION.fullmatch(name)
    if parts is None:
        raise ValueError(f"'{name}' is not an operation on tensors or sizes")
    space, packet, overload = parts.groups()
    if space not in NAMESPACES:
        known = ", ".join(sorted(NAMESPACES))
        raise ValueError(
            f"'{name}' is none of the operations of {known}; load it with PyTorch, and give xlac "
            "the program"
        )
    op = getattr(getattr(torch.ops, space), packet, None)
    op = getattr(op, overload, None) if isinstance(op, torch._ops.OpOverloadPacket) else None
    schema = getattr(op, "_schema", None) if isinstance(op, torch._ops.OpOverload) else None
    if schema is None:
        raise ValueError(f"PyTorch {torch.__version__} has no operation '{name}'")
    if not WITH_TEXT.fullmatch(packet) and any("str" in str(a.type) for a in schema.arguments):
        raise ValueError(f"'{name}' is not an operation on tensors or sizes")
    return name
