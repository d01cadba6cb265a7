"""Many processes on one cache, killed at random: no result is wrong, nothing is left broken. `make
stress`.

In each round eight processes compile small programs, some with weights above 2 MiB, while others
collect the cache, replace the weights, damage entries or fill them with zeros; most are killed
(SIGKILL) at a random moment. What a process that lives prints has to be what its weights say, and
after every round everything that is found in the cache has to be whole.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LARGE = (
    "xlac: 1\nmodel: large\nweights: {file}\ninputs: {{x: 'f32[1, 1024]'}}\ngraph:\n  h: "
    "{{op: linear, in: x, units: 768, bias: false}}\noutputs: [h]\n"
)
SMALL = (
    "xlac: 1\nmodel: small\nparams: {{k: {k}}}\ninputs: {{x: 'f32[1, 1024]'}}\ngraph:\n  y: x "
    "* $k\n  h: y + 1.0\noutputs: [h]\n"
)
WORKER = """
import sys, time
import numpy as np
import xlac
x = np.ones((1, 1024), np.float32)
for name in sys.argv[1:]:
    if name == "collect":
        from xlac.cache.store import Cache
        from xlac.settings import settings
        Cache(settings().cache, 1 << 22).collect(int(np.random.default_rng().integers(0, 1 << 22)))
        continue
    try:
        print(name, float(xlac.compile(name)(x)[0, 5]), flush=True)
    except xlac.SourceError as error:
        assert "XL3015" in str(error) or "XL3017" in str(error), error
"""


def save(file: Path, value: float) -> None:
    """Weights that give `value` for ones, renamed into place."""
    from safetensors.numpy import save_file

    made = file.with_name(f".{file.name}-{os.getpid()}-{random.random()}")
    save_file({"h.weight": np.full((768, 1024), value / 1024, np.float32)}, made)
    made.replace(file)


def damage(cache: Path, choose: random.Random) -> None:
    """Zeros, a byte more, or nothing at all, in some file of some entry: in a new file, as no
    program that maps the old one may see.
    """
    files = [file for file in cache.glob("??/*/*") if file.is_file()]
    if not files:
        return
    file = choose.choice(files)
    try:
        data = bytearray(file.read_bytes())
        at = choose.randrange(len(data) + 1)
        match choose.randrange(3):
            case 0:
                data[at:] = bytes(len(data) - at)
            case 1:
                del data[at:]
            case _:
                data[at:at] = b"\0"
        beside = cache / f".damage-{os.getpid()}"
        beside.write_bytes(data)
        beside.replace(file)
    except OSError:
        return  # it is gone


def round_of(
    folder: Path, values: dict[str, set[float]], choose: random.Random, processes: int
) -> int:
    """One round; how many results were compared. Raises AssertionError for one that is wrong."""
    environment = {
        **os.environ,
        "XLAC_CACHE": str(folder / "cache"),
        "XLAC_CACHE_BYTES": str(1 << 26),
        "OMP_NUM_THREADS": "1",
    }
    running = []
    for _ in range(processes):
        names = choose.choices([*values, "collect"], k=choose.randrange(1, 5))
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, *names],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    doomed = choose.sample(running, processes * 3 // 4)
    for child in doomed:
        time.sleep(choose.random() * 0.4)
        child.kill()
        match choose.randrange(4):
            case 0:
                damage(folder / "cache", choose)
            case 1:
                name = choose.choice([name for name in values if "large" in name])
                value = float(choose.randrange(1, 100))
                values[name].add(value)
                save(folder / f"{Path(name).stem}.safetensors", value)
    compared = 0
    for child in running:
        out, err = child.communicate(timeout=300)
        assert child in doomed or child.returncode == 0, err
        for line in out.splitlines():
            name, _, found = line.rpartition(" ")
            assert any(
                abs(float(found) - value) < 1e-3 * value for value in values.get(name, ())
            ), f"{line}: {values.get(name)}"
            compared += 1
    return compared


def quiet(folder: Path, values: dict[str, set[float]]) -> None:
    """With nobody else there every program gives what its file says, and every entry is whole."""
    from xlac.cache.store import Cache

    environment = {**os.environ, "XLAC_CACHE": str(folder / "cache")}
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, "-c", WORKER, *values],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for line in out.splitlines():
            name, _, found = line.rpartition(" ")
            now = current(Path(name))
            assert abs(float(found) - now) < 1e-3 * now, f"{line}: {now}"
    cache = Cache(folder / "cache", 1 << 30)
    for entry in list(cache.entries()):
        assert cache.find(entry.key) or not entry.folder.exists()


def current(spec: Path) -> float:
    from safetensors.numpy import load_file

    if "small" in spec.name:
        return float(spec.stem.removeprefix("small")) + 1
    return float(load_file(spec.with_suffix(".safetensors"))["h.weight"][0, 0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=20, help="no round begins after so many")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    asked = parser.parse_args()
    choose, start, compared = random.Random(asked.seed), time.monotonic(), 0
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="xlac-stress-") as made:
        folder = Path(made)
        values: dict[str, set[float]] = {}
        for number in (1, 2):
            (folder / f"small{number}.yaml").write_text(SMALL.format(k=float(number)))
            values[str(folder / f"small{number}.yaml")] = {number + 1.0}
            (folder / f"large{number}.yaml").write_text(
                LARGE.format(file=f"large{number}.safetensors")
            )
            save(folder / f"large{number}.safetensors", float(number))
            values[str(folder / f"large{number}.yaml")] = {float(number)}
        done = 0
        while done < asked.rounds and time.monotonic() - start < 60 * asked.minutes:
            compared += round_of(folder, values, choose, asked.processes)
            quiet(folder, values)
            done += 1
            if done % 10 == 0:
                print(
                    f"{done} rounds, {compared} results, "
                    f"{len(list((folder / 'cache').glob('xlac-room-*')))} rooms left",
                    flush=True,
                )
    print(
        f"{done} rounds of {asked.processes} processes, {compared} results of processes that "
        "lived, none wrong"
    )


if __name__ == "__main__":
    main()
