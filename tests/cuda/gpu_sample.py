"""A sample of programs on this machine's GPU, for compute-sanitizer to watch: `compute-sanitizer
python gpu_sample.py`.
"""

from __future__ import annotations

import sys

from xlac.debug.conformance import check
from xlac.ops import OPS
from xlac_sdk.host.registry import find

SAMPLE = (
    "add", "reduce", "softmax", "layer_norm", "transpose", "gather", "scatter", "cumulative",
    "sort", "window", "dot", "conv", "attention", "rng_bits",
)  # fmt: skip


def main() -> int:
    failed = [
        f"{o.case}: {o.detail}"
        for name in SAMPLE
        for o in check(OPS[name], find("cuda"))
        if o.status != "passed"
    ]
    print("\n".join(failed) or "every case passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
