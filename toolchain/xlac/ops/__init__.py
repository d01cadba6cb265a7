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
    native,
    order,
    reduction,
    scalar,
    view,
)

__all__ = [
    "OPS", "activation", "contraction", "control", "dynamic", "effect", "elementary", "index", "leaf", "native", "order",
    "reduction", "scalar", "view",
]  # fmt: skip
