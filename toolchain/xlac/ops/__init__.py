"""Every operation, declared once. Importing this package fills the table `xlac.ir.op.OPS`."""

from xlac.ir.op import OPS
from xlac.ops import leaf, reduction, scalar, view

__all__ = ["OPS", "leaf", "reduction", "scalar", "view"]
