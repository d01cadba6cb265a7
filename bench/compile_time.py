"""Compile time by stage, in seconds of CPU: `python bench/compile_time.py [--sizes 1000,2000]
[--kinds chain] [--json FILE]`.

Generated specs of many nodes show that every stage grows linearly; the specs of this repository and
the command's verbs, each in a process of its own, show what a user waits for. CPU time, not wall
time: other work on the machine counts for little. Every (kind, size) runs in a fresh process, so
that nothing one left behind helps the next.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from generated_specs import KINDS, spec

ROOT = Path(__file__).parent.parent
SIZES = (1000, 2000, 5000, 10_000, 20_000)
# what the installed script does
RUN = "import sys; sys.argv[0] = 'xlac'; from xlac.cli import main; main()"


# ---- stages ------------------------------------------------------------------------------------


class Stages:
    """Seconds of CPU by the name of the stage that spent them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.process_time()

    def mark(self, name: str) -> None:
        """Adds the processor time since the last mark to a stage."""
        now = time.process_time()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def measure(path: Path, target: str = "cpu") -> dict[str, Any]:
    """Compiles a spec in this process and says what each stage cost."""
    stages = Stages()
    from xlac.codegen.claims import is_kept, kind_taken
    from xlac.codegen.kernel_dedup import LoweringCache
    from xlac.driver import specialized
    from xlac.frontends.loader import load
    from xlac.fusion.partition import partition
    from xlac.memory.planner import planned
    from xlac.passes.capture import captured
    from xlac.passes.pipeline import optimize
    from xlac.passes.weights import Weights
    from xlac.support.gc_pause import paused
    from xlac_sdk.host.registry import find
    from xlac_sdk.target import Request

    backend = find(target)
    facts = backend.target(Request())
    stages.mark("import")
    model = specialized(load(path))
    stages.mark("load")
    stage_marks = [lambda name, before, after, seconds: stages.mark(f"pass {name}")]
    with paused():
        weights = Weights.over(model.weights)
        options = {"weights": weights, "precision": model.precision, "is_kept": is_kept}
        graph = optimize(model.graph, facts, observers=stage_marks, **options)
        nodes = sum(1 for _ in graph.nodes())
        stages.mark("count")
        del stages.seconds["count"]
        groups = partition(captured(graph), facts, kind_taken=kind_taken)
        stages.mark("fusion")
        schedules = LoweringCache(facts)
        lowerings = schedules.lowered(groups)
        stages.mark("schedule")
        program = planned(groups, lowerings, weights, model.state)[0]
        stages.mark("memory")
        sources = backend.emit(program, facts)
        stages.mark("emit")
    with tempfile.TemporaryDirectory() as folder:
        built = backend.build(sources, Path(folder))
        stages.mark("build")
        backend.load(built, program, facts)
        stages.mark("link")
    total = sum(stages.seconds.values())
    return {
        "nodes": nodes,
        "groups": len(groups.groups),
        "kernels": len(program.kernels),
        "text": sum(map(len, sources.values())),
        "arena": program.arena_bytes,
        "seconds": {k: round(v, 4) for k, v in stages.seconds.items()},
        "total": round(total, 3),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def child(arguments: list[str]) -> dict[str, Any]:
    """This script in a process of its own."""
    out = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE)
    stages: dict[str, Any] = json.loads(out.stdout)
    return stages


def generated(kind: str, count: int) -> dict[str, Any]:
    """The stages of compiling a generated spec of about `count` nodes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.yaml"
        path.write_text(spec(kind, count))
        return child(["--one", str(path)])


# ---- the command -------------------------------------------------------------------------------


def verbs(folder: Path) -> dict[str, list[str]]:
    """Commands whose cold start a user feels."""
    large = folder / "large.yaml"
    large.write_text(spec("chain", 5000))
    blocks = folder / "blocks.yaml"
    blocks.write_text(spec("residual", 5000))
    specs = ROOT / "specs"
    return {
        "xlac --help": ["--help"],
        "xlac check digits": ["check", f"{specs}/digits.yaml"],
        "xlac run digits": ["run", f"{specs}/digits.yaml"],
        "xlac build digits": ["build", f"{specs}/digits.yaml", "-o", f"{folder}/digits"],
        "xlac run gpt2_decode": ["run", f"{specs}/gpt2_decode.yaml"],
        "xlac build resnet50": ["build", f"{specs}/resnet50.yaml", "-o", f"{folder}/resnet50"],
        "xlac build mobilenet_v2": [
            "build",
            f"{specs}/mobilenet_v2.yaml",
            "-o",
            f"{folder}/mobilenet",
        ],
        "xlac check, chain of 5,000": ["check", "-q", str(large)],
        "xlac check, blocks of 5,000": ["check", "-q", str(blocks)],
    }


def cold(arguments: list[str], times: int = 3) -> dict[str, float]:
    """The least CPU time, and the least wall time, of a command in a process of its own."""
    spent: list[tuple[float, float]] = []
    cacheless = {**os.environ, "XLAC_CACHE": "off"}
    for _ in range(times):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", RUN, *arguments], check=True, capture_output=True, env=cacheless
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        spent.append((used, time.perf_counter() - began))
    return {"cpu": round(min(s[0] for s in spent), 3), "wall": round(min(s[1] for s in spent), 3)}


# ---- what is printed ---------------------------------------------------------------------------


def show(name: str, stages: dict[str, Any]) -> str:
    """A line of a model's stages, in seconds."""
    seconds: dict[str, float] = stages["seconds"]
    passes = sum(v for k, v in seconds.items() if k.startswith("pass "))
    rest = "  ".join(f"{k} {v:.2f}" for k, v in seconds.items() if not k.startswith("pass "))
    slow = max((k for k in seconds if k.startswith("pass ")), key=seconds.__getitem__)
    return (
        f"{name:16} {stages['total']:7.2f} s  {stages['nodes']:6} nodes {stages['groups']:6} "
        f"groups {stages['kernels']:5} kernels"
        f"  {rest}  passes {passes:.2f} (most {slow.removeprefix('pass ')} {seconds[slow]:.2f})"
    )


def main() -> None:
    """Prints the stages of each spec and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", default=",".join(map(str, SIZES)), help="node counts, comma-separated"
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of spec, comma-separated")
    parser.add_argument(
        "--specs", default="digits,resnet50,mobilenet_v2,bert_layer,gpt2_decode,lstm_3x60"
    )
    parser.add_argument("--no-cold", action="store_true", help="leave out the command's verbs")
    parser.add_argument("--json", type=Path, help="write everything here")
    parser.add_argument("--one", type=Path, help="compile one spec in this process and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    # an installed package has its byte code; so has this run
    if "PYTHONDONTWRITEBYTECODE" in os.environ:
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ["PYTHONPYCACHEPREFIX"] = os.environ.get(
            "PYTHONPYCACHEPREFIX"
        ) or tempfile.mkdtemp(prefix="xlac-pyc-")
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    }
    names = [n for n in options.specs.split(",") if n]
    if names:
        child(["--one", str(ROOT / "specs" / "resnet50.yaml")])  # writes byte code
    report["specs"] = {}
    for name in names:
        report["specs"][name] = child(["--one", str(ROOT / "specs" / f"{name}.yaml")])
        print(show(name, report["specs"][name]), flush=True)
    report["generated"] = {}
    for kind in filter(None, options.kinds.split(",")):
        rows = report["generated"][kind] = {}
        for count in map(int, options.sizes.split(",")):
            rows[count] = generated(kind, count)
            print(show(f"{kind} {count}", rows[count]), flush=True)
    if not options.no_cold:
        report["cold"] = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, arguments in verbs(Path(folder)).items():
                report["cold"][name] = cold(arguments)
                print(
                    f"{name:28} {report['cold'][name]['cpu']:.3f} s of CPU, "
                    f"{report['cold'][name]['wall']:.2f} s",
                    flush=True,
                )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
