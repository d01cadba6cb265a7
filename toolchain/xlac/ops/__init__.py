"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops.control import control, effect
from xlac.ops.nn import (
    attention,
    convolution,
    linear,
    loss,
    normalization,
    pooling,
    probability,
    recurrent,
)
from xlac.ops.reduction import algebra, contraction, order, ranking, reduction, statistics
from xlac.ops.scalar import (
    activation,
    arithmetic,
    convert,
    elementary,
    logic,
    minifloat,
    native,
    special,
)
from xlac.ops.tensor import (
    arrange,
    choose,
    create,
    dynamic,
    grid,
    index,
    leaf,
    place,
    reorder,
    resize,
    view,
)

__all__ = [
    "OPS", "activation", "algebra", "arithmetic", "arrange", "attention", "choose", "contraction", "control",
    "convert", "convolution", "create", "dynamic", "effect", "elementary", "grid", "index", "leaf", "linear", "logic",
    "loss", "minifloat", "native", "normalization", "order", "place", "pooling", "probability", "ranking", "recurrent",
    "reduction", "reorder", "resize", "special", "statistics", "view",
]  # fmt: skip
