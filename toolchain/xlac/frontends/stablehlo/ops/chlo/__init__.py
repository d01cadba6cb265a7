"""Operations of CHLO alone. Importing the package registers them."""

from xlac.frontends.stablehlo.ops.chlo import elements, ragged, scans

__all__ = ["elements", "ragged", "scans"]
