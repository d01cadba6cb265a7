"""Runs what `xlac build` made where no compiler is installed.

import xlac_runtime

model = xlac_runtime.load("out/digits")
probs = model(image=x)                        # NumPy, or anything with DLPack or __array__
model.run({"image": x}, out={"probs": probs})  # nothing is allocated
"""

from __future__ import annotations

from xlac_runtime.model import Model, load
from xlac_sdk.source import LimitError, SourceError, UnsupportedError, XlacError

__all__ = ["LimitError", "Model", "SourceError", "UnsupportedError", "XlacError", "load"]
