"""Specs that train are those of the tests of training."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
