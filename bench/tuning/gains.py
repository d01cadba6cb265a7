"""What tuning gains over the compiler's own choices, on 20 models that the suite does not have:
JAX's programs of tests/stablehlo/corpus, by facts of CPUID alone.

    python bench/tuning/gains.py --work out/tuned --search 20   # tunes what is not tuned yet
    python bench/tuning/gains.py --work out/tuned --measure 3   # measures what is not measured yet
    python bench/tuning/gains.py --work out/tuned --record bench/results/tuned_DATE.json

Each part ends after --minutes, and goes on where it was when it is given again. Both programs of a
model are called in turn in PROCESSES fresh processes; a process gives the ratio of the lower
quartiles of its bursts.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "stablehlo" / "corpus"
MODELS = (
    "attention_causal_gqa", "black_scholes", "convnet_bn", "convnet_grad", "conv_transpose",
    "ew_trig", "flash_attention_scan", "gpt_2layer", "gpt_grad", "jacobi_stencil",
    "llama_decode_step", "logsumexp_stable", "mamba_ssm", "mlp_sgd_steps", "moe_topk", "nbody",
    "norms", "reductions", "scan_lstm", "vit_tiny",
)  # fmt: skip
PROCESSES = 3
BURSTS = 12


def search(work: Path, seconds: float, end: float) -> None:
    """Tunes each model for some seconds, and keeps its schedules in a file."""
    import xlac

    for name in left(work, end, ".yaml"):
        file = work / f"{name}.yaml"
        xlac.tune(CORPUS / f"{name}.mlir", seconds=seconds, output=file, tell=print)


def measure(work: Path, seconds: float, end: float) -> None:
    """Measures the tuned models in fresh processes."""
    for name in left(work, end, ".json"):
        if not (work / f"{name}.yaml").exists():
            continue
        command = [sys.executable, __file__, "--work", str(work), "--one", name]
        each = str(seconds / PROCESSES)
        told = [
            json.loads(subprocess.check_output([*command, "--seconds", each], text=True))
            for _ in range(PROCESSES)
        ]
        (work / f"{name}.json").write_text(json.dumps(told))
        print(name, *(f"{one['ratio']:.3f}" for one in told), flush=True)


def left(work: Path, end: float, suffix: str) -> Iterator[str]:
    """The models without a file of a suffix, while there is time."""
    for name in MODELS:
        if time.monotonic() < end and not (work / f"{name}{suffix}").exists():
            yield name


def one(work: Path, name: str, seconds: float) -> dict[str, Any]:
    """The lower quartiles of bursts of both programs, and their ratio."""
    import numpy as np

    import xlac
    from xlac.debug.tune.stamped_model import lower_quartile

    rng = np.random.default_rng(0)
    models: list[Any] = [
        xlac.compile(str(CORPUS / f"{name}.mlir"), schedules=schedules)
        for schedules in (None, str(work / f"{name}.yaml"))
    ]
    calls = []
    for model in models:
        given = {
            s.name: (
                rng.standard_normal(s.extents({})) if s.dtype.is_float else np.ones(s.extents({}))
            ).astype(s.dtype.numpy)
            for s in model.program.inputs
        }
        out = {s.name: np.zeros(s.extents({}), s.dtype.numpy) for s in model.program.outputs}
        calls.append((model.run, given, out))
    repeat = [1, 1]
    for side, (run, given, out) in enumerate(calls):
        run(given, out)
        begun = time.perf_counter()
        run(given, out)
        taken = max(time.perf_counter() - begun, 1e-7)
        repeat[side] = max(1, int(seconds / (2 * BURSTS) / taken / 8))
    samples: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[1]) < 3:
        for side, (run, given, out) in enumerate(calls):
            begun = time.perf_counter()
            for _ in range(repeat[side]):
                run(given, out)
            samples[side].append((time.perf_counter() - begun) / repeat[side])
    before, after = (1e6 * lower_quartile(taken) for taken in samples)
    return {"default_us": before, "tuned_us": after, "ratio": before / after}


def record(work: Path, file: Path | None) -> None:
    """Prints the gains and their geometric mean, and writes them."""
    rows = {}
    for name in MODELS:
        place = work / f"{name}.json"
        if place.exists():
            told = sorted(json.loads(place.read_text()), key=lambda each: each["ratio"])
            middle = told[len(told) // 2]
            ends = [told[0]["ratio"], told[-1]["ratio"]]
            rows[name] = {**middle, "between": ends}
            print(
                f"| {name} | {middle['default_us']:.1f} | {middle['tuned_us']:.1f} | "
                f"{middle['ratio']:.3f} | {ends[0]:.3f} to {ends[1]:.3f} |"
            )
    gains = [row["ratio"] for row in rows.values()]
    mean = math.exp(sum(map(math.log, gains)) / max(1, len(gains)))
    print(f"{len(gains)} of {len(MODELS)} models, geometric mean {mean:.3f}")
    print(f"the least {min(gains, default=0):.3f}")
    if file is not None:
        about = {"machine": platform.processor() or platform.machine(), "processes": PROCESSES}
        data = {**about, "geometric_mean": mean, "models": rows}
        file.write_text(json.dumps(data, indent=1) + "\n")


def main() -> None:
    """Does the part that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--search", type=float, help="seconds for each model")
    parser.add_argument("--measure", type=float, help="seconds for each model")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--record", type=Path, default=None)
    parser.add_argument("--one", default="")
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    if given.one:
        print(json.dumps(one(given.work, given.one, given.seconds)))
    elif given.search:
        search(given.work, given.search, end)
    elif given.measure:
        measure(given.work, given.measure, end)
    else:
        record(given.work, given.record)


if __name__ == "__main__":
    main()
