"""The harness of the schedules' tests serves those of a GPU too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "codegen"))
