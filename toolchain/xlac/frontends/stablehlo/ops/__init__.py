"""Builders of StableHLO and CHLO operations, a file for each family. Importing the package fills
the table.
"""

from xlac.frontends.stablehlo.ops import (
    chlo,
    collectives,
    composites,
    contraction,
    control,
    conversion,
    creation,
    dynamic,
    elementwise,
    indexing,
    lapack,
    linear,
    normalization,
    random,
    reductions,
    refused,
    sorting,
    views,
    windows,
)

__all__ = [
    "chlo", "collectives", "composites", "contraction", "control", "conversion", "creation",
    "dynamic", "elementwise", "indexing", "lapack", "linear", "normalization",
    "random", "reductions", "refused", "sorting", "views", "windows",
]  # fmt: skip
