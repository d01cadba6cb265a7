"""Known operations that are refused: they communicate with other devices or a host."""

from __future__ import annotations

from xlac.frontends.stablehlo.table import REFUSED

_BETWEEN = "it communicates with other devices while it computes; export synchronous operations"

_HOST = "it communicates with the host while it runs; make the value an input or an output"
_UNKNOWN = "it was removed from the dialect"

REFUSED |= dict.fromkeys(("async_start", "async_done"), _BETWEEN)
REFUSED |= dict.fromkeys(("infeed", "outfeed", "send", "recv"), _HOST)
REFUSED |= dict.fromkeys(("trace", "cstr_reshapable", "compute_reshape_shape"), _UNKNOWN)
