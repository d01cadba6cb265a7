"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops import (
    activation,
    contraction,
    control,
    dynamic,
    effect,
    elementary,
    index,
    leaf,
    linear,
    native,
    order,
    probability,
    reduction,
    scalar,
    statistics,
    view,
)

__all__ = [
    "OPS", "activation", "contraction", "control", "dynamic", "effect", "elementary", "index", "leaf",
    "linear", "native", "order", "probability", "reduction", "scalar", "statistics", "view",
]  # fmt: skip
