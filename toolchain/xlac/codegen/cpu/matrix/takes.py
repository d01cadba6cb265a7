"""Which matrices are small enough for a kernel of their own."""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ops.linalg.cholesky import Cholesky
from xlac.ops.linalg.lu import Lu
from xlac.ops.linalg.triangular_solve import TriangularSolve
from xlac_sdk.target import Target

SIZE = 64  # rows and columns of a matrix that one kernel factors or solves with
PANEL = 16  # columns of a matrix with more rows that one kernel factors


def takes(node: Node, target: Target) -> bool:
    """Whether a CPU kernel computes an operation on real matrices: larger ones are divided into
    blocks that kernels compute.
    """
    op, shape = node.op, node.inputs[0].shape
    if 0 in node.inputs[-1].shape:
        return False
    rows, columns = shape[-2:]
    assert isinstance(rows, int) and isinstance(columns, int)
    match op:
        case Lu(complex=False):
            whole = columns <= SIZE and rows * columns <= SIZE * SIZE
            return 0 not in shape and (whole or columns <= PANEL)
        case Cholesky(complex=False, lower=True):
            return 0 < rows <= SIZE
        case TriangularSolve(complex=False, left=True, transpose=False):
            # without vectors, loops of the expansion are left to the C compiler
            return 0 < rows <= SIZE and target.vector_bytes > 0
    return False
