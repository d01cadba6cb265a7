"""`xlac bench`: how long a call takes."""

from __future__ import annotations

import json
from typing import Any

import click

from xlac.cli.options import chosen, request, spec_options, target_options


@click.command(name="bench")
@spec_options
@target_options
@click.option("--seconds", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="Time to measure for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(seconds: float, as_json: bool, **options: Any) -> None:
    """Compile SPEC and time calls with random inputs.

    Reports compile time, the median and quartiles of a call, and the rate of arithmetic.
    """
    import time

    import numpy as np

    from xlac.artefact import program_flops
    from xlac.cli.arrays import make
    from xlac.cli.build import open_model, size
    from xlac.compiler import executable, lower
    from xlac_sdk.registry import find

    choice = chosen(**options)
    start, busy = time.perf_counter(), time.process_time()
    model = open_model(choice)
    backend = find(choice.target)
    facts = backend.target(request(choice))
    compiled = executable(lower(model, facts), backend)
    compile_seconds, compile_cpu = time.perf_counter() - start, time.process_time() - busy

    generator = np.random.default_rng(0)
    inputs = [make("random", slot.dtype, slot.shape, generator) for slot in compiled.program.inputs]
    times = measure(lambda: compiled(*inputs), seconds)
    program = compiled.program
    flops = program_flops(program)
    result = {
        "model": model.name,
        "target": choice.target,
        "threads": choice.threads,
        "compile_seconds": round(compile_seconds, 4),
        "compile_cpu_seconds": round(compile_cpu, 4),
        "calls": len(times),
        "median_us": float(np.median(times)) * 1e6,
        "p25_us": float(np.percentile(times, 25)) * 1e6,
        "p75_us": float(np.percentile(times, 75)) * 1e6,
        "best_us": min(times) * 1e6,
        "flops": flops,
        "gflops_per_second": flops / float(np.median(times)) / 1e9,
        "kernels": len(program.kernels),
        "arena_bytes": program.arena_bytes,
        "constant_bytes": sum(s.nbytes for s in program.slots if s.role.value == "constant"),
    }
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(f"{model.name} on {choice.target}, {choice.threads} thread(s)")
    click.echo(f"  compile   {compile_seconds:.2f} s ({compile_cpu:.2f} s of CPU)")
    click.echo(
        f"  call      {result['median_us']:.2f} us median, quartiles {result['p25_us']:.2f}–{result['p75_us']:.2f}, "
        f"best {result['best_us']:.2f}, over {len(times)} samples"
    )
    click.echo(f"  rate      {result['gflops_per_second']:.1f} GFLOP/s over {flops:,} flops")
    click.echo(f"  memory    {size(program.arena_bytes)} arena, {size(result['constant_bytes'])} constants")


def measure(call: Any, seconds: float) -> list[float]:
    """Seconds a call, one figure a sample; a sample is one call, or enough to fill 200 microseconds."""
    import time

    call()
    clock = time.perf_counter
    start = clock()
    call()
    once = max(clock() - start, 1e-9)
    repeat = max(1, int(200e-6 / once))
    warm = clock() + min(0.05, seconds / 4)
    while clock() < warm:
        call()
    samples: list[float] = []
    end = clock() + seconds
    while clock() < end or len(samples) < 3:
        start = clock()
        for _ in range(repeat):
            call()
        samples.append((clock() - start) / repeat)
    return samples
