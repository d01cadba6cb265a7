"""LAPACK's functions, which JAX calls for linear algebra on a CPU. Importing the package registers
them.
"""

from xlac.frontends.stablehlo.ops.lapack import operations, parts, spectra

__all__ = ["operations", "parts", "spectra"]
