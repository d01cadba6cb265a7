"""How long `xlac import` takes and how much memory it needs: a file of a gigabyte, and a graph of
20,000 nodes.

    python bench/import_scale.py [MEGABYTES [NODES]]

Each command runs in a process of its own. CPU seconds are those of the process; memory is the most
that it had resident, which counts the pages of files that it mapped.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WIDTH = 1024
MEASURE = """
import re, sys, time
from pathlib import Path
from xlac.cli import status
code = status(sys.argv[1:])
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(code, time.process_time(), peak * 1024)
"""


def large(file: Path, megabytes: int) -> None:
    """A stack of matrix products with so many megabytes of weights inside the file."""
    from onnx import TensorProto, helper

    count = megabytes * 2**20 // (WIDTH * WIDTH * 4)
    rng = np.random.default_rng(0)
    nodes, tensors, x = [], [], "x"
    for n in range(count):
        raw = rng.random((WIDTH, WIDTH), np.float32).tobytes()
        tensors.append(
            TensorProto(
                name=f"layers.{n}.weight",
                data_type=TensorProto.FLOAT,
                dims=[WIDTH, WIDTH],
                raw_data=raw,
            )
        )
        nodes.append(
            helper.make_node(
                "MatMul",
                [x, f"layers.{n}.weight"],
                [x := f"/layers.{n}/MatMul_output_0"],
                name=f"/layers.{n}/MatMul",
            )
        )
    _save(file, nodes, tensors, x, [1, WIDTH])


def deep(file: Path, nodes: int) -> None:
    """A chain of so many small operations."""
    from onnx import TensorProto, helper

    kinds = ("Add", "Mul", "Relu", "Sub", "Tanh")
    one = TensorProto(
        name="one",
        data_type=TensorProto.FLOAT,
        dims=[64],
        raw_data=np.ones(64, np.float32).tobytes(),
    )
    made, x = [], "x"
    for n in range(nodes):
        kind = kinds[n % len(kinds)]
        given = [x] if kind in ("Relu", "Tanh") else [x, "one"]
        made.append(
            helper.make_node(
                kind,
                given,
                [x := f"/block.{n // 50}/{kind}_{n}_output_0"],
                name=f"/block.{n // 50}/{kind}_{n}",
            )
        )
    _save(file, made, [one], x, [4, 64])


def _save(file: Path, nodes: list, tensors: list, output: str, shape: list[int]) -> None:
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "scale", inputs, outputs, tensors)
    file.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
        ).SerializeToString()
    )


def measured(*arguments: str) -> tuple[float, float]:
    """CPU seconds and bytes of memory of an `xlac` command."""
    out = subprocess.run(
        [sys.executable, "-c", MEASURE, *arguments], check=True, capture_output=True, text=True
    ).stdout
    code, seconds, peak = out.split("\n")[-2].split()
    assert code == "0", out
    return float(seconds), float(peak)


def read_twice(file: Path) -> float:
    """CPU seconds of reading a file twice."""
    start = time.process_time()
    for _ in range(2):
        with file.open("rb") as data:
            while data.read(16 * 2**20):
                pass
    return time.process_time() - start


def main() -> None:
    """Makes the large model and the one of many nodes, imports both and prints the costs."""
    megabytes, nodes = ([int(a) for a in sys.argv[1:]] + [1024, 20_000][len(sys.argv) - 1 :])[:2]
    with tempfile.TemporaryDirectory() as folder:
        file, made = Path(folder) / "model.onnx", Path(folder) / "made.yaml"
        print(
            "| file | nodes | read twice, CPU s | import, CPU s | most memory, MB | of the weights "
            "|"
        )
        print("|---|---|---|---|---|---|")
        for what, make in (
            ("weights", lambda: large(file, megabytes)),
            ("nodes", lambda: deep(file, nodes)),
        ):
            make()
            size = file.stat().st_size
            base, empty = measured("--version")
            twice = read_twice(file)
            seconds, peak = measured("import", str(file), "-o", str(made), "--force")
            count = megabytes // 4 if what == "weights" else nodes
            ratio = f"{peak / size:.2f}×" if what == "weights" else ""
            print(
                f"| {size / 2**20:,.0f} MB | {count:,} | {twice:.2f} | {seconds:.2f} | "
                f"{peak / 2**20:,.0f} | {ratio} |",
                flush=True,
            )
            seconds, peak = measured("check", str(made), "--json")
            print(
                f"| the YAML of it, `xlac check` | {count:,} | | {seconds:.2f} | "
                f"{peak / 2**20:,.0f} | |",
                flush=True,
            )
        print(f"\n`xlac --version` alone: {base:.2f} s, {empty / 2**20:.0f} MB.")


if __name__ == "__main__":
    main()
