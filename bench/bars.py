"""What the benchmark is to reach, each target against a recorded run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from figures import INDUCTOR, NOT_PEERS, OURS, XLA, Recorded, mean

MATMULS = ("matmul_256", "matmul_512", "matmul_1024", "matmul_2048")
SKINNY = ("gemv_4096", "matmul_16x768x3072")
CONVOLUTIONS = ("conv_3x3_64", "conv_1x1_256_64", "conv_7x7s2_3_64")


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing asked for: what was measured, and whether it will do (None: not measured)."""

    asked: str
    measured: str
    met: bool | None


def bars(run: Recorded) -> list[Bar]:
    """Every bar that this run says something about."""
    return [
        *_against_peers(run),
        *_ceilings(run),
        *_latencies(run),
        *_compiling(run),
        *_memory(run),
    ]


def table(run: Recorded) -> list[str]:
    """Markdown: the bars, met and not met."""
    words = {True: "met", False: "**not met**", None: "not measured"}
    lines = ["| asked | measured | |", "|---|---|---|"]
    return lines + [f"| {bar.asked} | {bar.measured} | {words[bar.met]} |" for bar in bars(run)]


def _against_peers(run: Recorded) -> Iterator[Bar]:
    for threads in run.threads:
        ratios = run.ratios(threads)
        behind = {name: ratio for name, ratio in ratios.items() if ratio > 1}
        worst = ", ".join(
            f"{name} {ratio:.2f}"
            for name, ratio in sorted(behind.items(), key=lambda pair: -pair[1])
        )
        yield Bar(
            f"no workload slower than the best peer, {threads} thread(s)",
            f"{len(behind)} of {len(ratios)}: {worst or 'none'}",
            not behind,
        )
        yield _most(
            f"geometric mean over the best peer, {threads} thread(s)", mean(ratios.values()), 0.70
        )
        yield _most(
            f"geometric mean over XLA's, {threads} thread(s)",
            mean(run.ratios(threads, over=XLA).values()),
            0.5,
        )


def _ceilings(run: Recorded) -> Iterator[Bar]:
    if run.ceilings is None:
        return
    for names, what, least in (
        (MATMULS, "matmul, of peak", 0.92),
        (SKINNY, "skinny products, of the bound", 0.90),
        (CONVOLUTIONS, "convolutions, of peak", 0.88),
        (("conv_dw3x3_96",), "depthwise, of the bound", 0.90),
        (("mul_add_reduce_16m",), "fused chain, of memory bandwidth", 0.90),
    ):
        for threads in run.threads:
            yield _shares(
                f"{what}, {threads} thread(s)",
                {name: run.of_bound(name, threads) for name in names},
                least,
            )
    if {1, 2} <= set(run.threads):
        one, two = (
            {name: run.figure(name, threads).get(OURS) for name in MATMULS} for threads in (1, 2)
        )
        scaling = {name: one[name] / two[name] for name in MATMULS if one[name] and two[name]}  # type: ignore[operator]
        yield _least("matmul, two threads over one", scaling, 1.85, "{:.2f}")


def _latencies(run: Recorded) -> Iterator[Bar]:
    for name, most in (("mlp_small", 1.5e-6), ("lstm_stack_scan", 45e-6), ("tiny_ops_150", 5e-6)):
        yield _most(
            f"{name} from Python, µs", _scaled(run.figure(name, 1).get(OURS), 1e6), most * 1e6
        )
    tiny = run.figure("tiny_ops_150", 1)
    times = (
        {"eager": tiny["torch_eager"] / tiny[OURS]} if {OURS, "torch_eager"} <= tiny.keys() else {}
    )
    yield _least("150 tiny operations: times quicker than one by one", times, 40, "{:.0f}")
    yield _most("mlp_small from C, µs", _scaled(run.own.get("seconds_from_c"), 1e6), 0.8)


def _compiling(run: Recorded) -> Iterator[Bar]:
    for peer, names in (("XLA", XLA), ("inductor", INDUCTOR)):
        for key, what in (
            ("compile_cpu_seconds", "imports aside"),
            ("process_cpu_seconds", "the process from its start"),
        ):
            ratios = run.ratios(1, key, over=names)
            slower = sorted(name for name, ratio in ratios.items() if ratio > 1)
            some = f"slower on {len(slower)} of {len(ratios)}" + (
                f": {', '.join(slower)}" if slower else ""
            )
            yield Bar(
                f"cold compilation quicker than {peer}'s on every workload (CPU s, {what})",
                some,
                not slower if ratios else None,
            )
    for key, what in (
        ("compile_cpu_seconds", "imports aside"),
        ("process_cpu_seconds", "the process from its start"),
    ):
        yield _most(
            f"resnet50 compiled, CPU s, {what}", run.figure("resnet50", 1, key).get(OURS), 2.0
        )
    starts = run.own.get("starts", {})
    for key, what in (("ready", "CPU s of all its threads"), ("ready_wall", "wall s")):
        warm = {name: float(one["warm"][key]) for name, one in starts.items() if key in one["warm"]}
        slowest = max(warm, key=warm.__getitem__, default="")
        yield _most(
            f"warm start until the first call, process included, {what} (slowest: {slowest})",
            warm.get(slowest),
            0.150,
        )


def _memory(run: Recorded) -> Iterator[Bar]:
    starts = run.own.get("starts", {})
    over = {
        name: one["cold"]["arena_bytes"] / one["cold"]["live_bytes"]
        for name, one in starts.items()
        if one["cold"].get("live_bytes")
    }
    worst = max(over, key=over.__getitem__, default="")
    yield _most(f"arena over the largest live set (worst: {worst})", over.get(worst), 1.05)
    for workload in ("resnet50", "bert_layer"):
        megabytes = run.figure(workload, 1, "peak_rss_mb")
        theirs = {name: mb for name, mb in megabytes.items() if name not in NOT_PEERS}
        least = min(theirs, key=theirs.__getitem__, default="")
        if least:
            yield _most(
                f"peak memory of {workload}, MB, compiler and all (least of the peers: {least})",
                megabytes.get(OURS),
                theirs[least],
            )
        if least and workload in starts:
            warm = float(starts[workload]["warm"]["peak_rss_mb"])
            yield _most(
                f"the same, taken from the cache (least of the peers: {least})", warm, theirs[least]
            )


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _most(asked: str, value: float | None, limit: float) -> Bar:
    if value is None or math.isnan(value):
        return Bar(f"{asked}: at most {limit:.3g}", "–", None)
    return Bar(f"{asked}: at most {limit:.3g}", f"{value:.3g}", value <= limit)


def _least(asked: str, values: Mapping[str, float], limit: float, form: str) -> Bar:
    listed = ", ".join(f"{name} {form.format(value)}" for name, value in values.items())
    return Bar(
        f"{asked}: at least {form.format(limit)}",
        listed or "–",
        all(v >= limit for v in values.values()) if values else None,
    )


def _shares(asked: str, values: Mapping[str, float | None], limit: float) -> Bar:
    return _least(
        asked, {name: value for name, value in values.items() if value is not None}, limit, "{:.0%}"
    )
