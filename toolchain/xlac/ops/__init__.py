"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops import (
    activation,
    algebra,
    arrange,
    attention,
    choose,
    contraction,
    control,
    convert,
    convolution,
    create,
    dynamic,
    effect,
    elementary,
    index,
    leaf,
    linear,
    logic,
    loss,
    minifloat,
    native,
    normalization,
    order,
    place,
    pooling,
    probability,
    ranking,
    recurrent,
    reduction,
    resize,
    scalar,
    statistics,
    view,
)

__all__ = [
    "OPS", "activation", "algebra", "arrange", "attention", "choose", "contraction", "control",
    "convert", "convolution", "create", "dynamic", "effect", "elementary", "index", "leaf", "linear", "logic",
    "loss", "minifloat", "native", "normalization", "order", "place", "pooling", "probability", "ranking", "recurrent",
    "reduction", "resize", "scalar", "statistics", "view",
]  # fmt: skip
