"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops import contraction, control, dynamic, effect, index, leaf, order, reduction, scalar, view

__all__ = [
    "OPS", "contraction", "control", "dynamic", "effect", "index", "leaf", "order", "reduction", "scalar", "view",
]  # fmt: skip
