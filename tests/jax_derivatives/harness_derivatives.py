"""Derivatives of the cases that JAX has for its primitives, beside JAX's, in f64.

    python tests/jax_derivatives/harness_derivatives.py [--every 10] [--offset 0] [--group REGEX]

The cases come with the jax wheel (jax._src.internal_test_util.test_harnesses): those of f32, their
floats widened. Value, change along a direction and gradient are compared. A case with nothing to
differentiate, or that JAX does not differentiate, does not count; those that are known to differ
are in harnesses_left_out.yaml, by expressions for their names.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml
from beside_jax import Nothing, NotTheirs, compare
from jax._src.internal_test_util import test_harnesses

LEFT_OUT: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("harnesses_left_out.yaml").read_text("utf-8")
)


def widened(argument: Any) -> Any:
    """Arrays and numbers of f32 as f64."""
    if jax.dtypes.issubdtype(getattr(argument, "dtype", None), jax.dtypes.extended):
        return argument
    array = np.asarray(argument)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def outcome(harness: Any) -> str:
    """Nothing where a case agrees, `-` where it does not count, else how it fails."""
    if any(limit.filter(device="cpu", dtype=harness.dtype) for limit in harness.jax_unimplemented):
        return "-"
    arguments = list(map(widened, harness.dyn_args_maker(np.random.RandomState(0))))
    try:
        jax.eval_shape(harness.dyn_fun, *arguments)
    except Exception:  # JAX does not take it widened: a number in the function is still of f32
        return "-"
    try:
        compare(harness.dyn_fun, arguments, smooth=False, second=False)
    except (Nothing, NotTheirs):
        return "-"
    except Exception as error:  # a crash is a failure like any other, and the rest must run
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--group", default="")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    counts: Counter[str] = Counter()
    needed: set[str] = set()
    cases = [h for h in test_harnesses.all_harnesses if h.dtype == np.float32]
    for harness in cases[given.offset :: given.every]:
        name = harness.fullname
        if not re.search(given.group, name):
            continue
        told = outcome(harness)
        known = (
            next((k for k in LEFT_OUT if re.match(k, name)), "") if told not in ("", "-") else ""
        )
        needed |= {known}
        kind = (
            "agree"
            if not told
            else "do not count"
            if told == "-"
            else "known"
            if known
            else "differ"
        )
        counts[kind] += 1
        if kind == "differ":
            print(name, "--", told, flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if given.every == 1 and not given.group and (gone := LEFT_OUT.keys() - needed):
        print("right now, take them off the list:", *sorted(gone))
        return 1
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
