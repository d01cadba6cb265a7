"""Markdown tables from results.

    python report.py RESULTS.json CEILINGS.json > REPORT.md
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.roofline import Ceilings


def number(seconds: float, unit: str) -> str:
    value = seconds * (1e6 if unit == "us" else 1e3)
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(entry: dict | None, unit: str, best: bool, key: str) -> str:
    if entry is None:
        return ""
    if key not in entry:
        return "wrong" if "wrong" in entry.get("failure", "") else "n/a" if "unsupported" in entry["failure"] else "fail"
    text = number(entry[key], unit)
    return f"**{text}**" if best else text


def time_table(data: dict, ceilings: Ceilings, threads: int, names: list[str], key: str = "seconds") -> str:
    lines = ["| workload | unit | bound | " + " | ".join(names) + " | best | of roofline |", "|" + "---|" * (len(names) + 5)]
    for workload, entry in data["workloads"].items():
        results = entry["results"].get(str(threads), {})
        timed = {n: r[key] for n, r in results.items() if key in r and n in names}
        if not timed:
            continue
        winner, meta = min(timed, key=timed.get), entry["meta"]
        bound, unit = ceilings.bound(meta, threads), entry["meta"]["scale"]
        lines.append("| " + " | ".join([
            workload, unit, f"{number(bound['seconds'], unit)} {bound['limit'][0]}",
            *(cell(results.get(n), unit, n == winner, key) for n in names), winner, f"{bound['seconds'] / timed[winner]:.0%}"]) + " |")
    return "\n".join(lines)


def column_table(data: dict, names: list[str], key: str, threads: int, form: str) -> str:
    lines = ["| workload | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for workload, entry in data["workloads"].items():
        results = entry["results"].get(str(threads), {})
        if results:
            lines.append(f"| {workload} | " + " | ".join(
                form.format(results[n][key]) if n in results and key in results[n] else "" for n in names) + " |")
    return "\n".join(lines)


def failures(data: dict) -> str:
    lines = []
    for workload, entry in data["workloads"].items():
        for threads, results in entry["results"].items():
            for name, r in results.items():
                if "failure" in r and "unsupported" not in r["failure"]:
                    lines.append(f"- {workload}, {name}, {threads} thread(s): {r['failure'][:240]}")
    return "\n".join(lines) or "none"


def noise(data: dict) -> str:
    spreads = sorted(r["spread"] for e in data["workloads"].values() for t in e["results"].values() for r in t.values() if "spread" in r)
    if not spreads:
        return ""
    pick = lambda q: spreads[min(len(spreads) - 1, int(q * len(spreads)))]
    return (f"(max-min)/median over a contender's bursts: median {pick(.5):.1%}, 75th percentile {pick(.75):.1%}, "
            f"90th {pick(.9):.1%}, {len(spreads)} cells")


def main(results: Path, ceilings_path: Path) -> None:
    data, ceilings = json.loads(results.read_text()), Ceilings(json.loads(ceilings_path.read_text())["rows"])
    present = {n for e in data["workloads"].values() for t in e["results"].values() for n in t}
    order = ["xlac", "jax", "jax_const", "onnxruntime", "openvino", "torch_eager", "torch_inductor", "torch_aoti", "iree", "tvm", "tinygrad"]
    names = [n for n in order if n in present] + sorted(present - set(order))
    for threads in (1, 2):
        print(f"## Time per call, {threads} thread(s)\n\nbound = roofline (c compute, m memory). Peak {ceilings.flops[threads] / 1e9:.0f} GFLOP/s.\n")
        print(time_table(data, ceilings, threads, names), "\n")
        print(f"### The same, quietest estimate: lowest burst median, {threads} thread(s)\n")
        print(time_table(data, ceilings, threads, names, "best_burst_seconds"), "\n")
    print("## Load + compile + first call, 1 thread, CPU seconds\n\n" + column_table(data, names, "compile_cpu_seconds", 1, "{:.2f}"), "\n")
    print("## Peak RSS, 1 thread, MB\n\n" + column_table(data, names, "peak_rss_mb", 1, "{:.0f}"), "\n")
    print("## Relative error against the float64 reference, 1 thread\n\n" + column_table(data, names, "rel_error", 1, "{:.1e}"), "\n")
    print("## Failures\n\n" + failures(data), "\n\n## Noise\n\n" + noise(data))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
