"""`xlac_cuda.run.locate` on the stand-in: a process of its own, which runs a program again to find
the kernel that fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cuda_harness import standin

from xlac_cuda.run.locate import main

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, standin(patch):
        print(json.dumps(main(Path(sys.argv[1]))))
