"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops import (
    activation,
    contraction,
    control,
    convolution,
    dynamic,
    effect,
    elementary,
    index,
    leaf,
    linear,
    native,
    order,
    pooling,
    probability,
    reduction,
    scalar,
    statistics,
    view,
)

__all__ = [
    "OPS", "activation", "contraction", "control", "convolution", "dynamic", "effect", "elementary",
    "index", "leaf", "linear", "native", "order", "pooling", "probability", "reduction", "scalar",
    "statistics", "view",
]  # fmt: skip
