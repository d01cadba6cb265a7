"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops import (
    activation,
    arrange,
    attention,
    choose,
    contraction,
    control,
    convolution,
    create,
    dynamic,
    effect,
    elementary,
    index,
    leaf,
    linear,
    loss,
    native,
    normalization,
    order,
    pooling,
    probability,
    recurrent,
    reduction,
    resize,
    scalar,
    statistics,
    view,
)

__all__ = [
    "OPS", "activation", "arrange", "attention", "choose", "contraction", "control", "convolution",
    "create", "dynamic", "effect", "elementary", "index", "leaf", "linear", "loss", "native",
    "normalization", "order", "pooling", "probability", "recurrent", "reduction", "resize", "scalar",
    "statistics", "view",
]  # fmt: skip
