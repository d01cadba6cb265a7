"""What a process does over and over leaves nothing behind: no memory, file, thread, map or
temporary file. `make stress-leaks`.

Each kind of work runs in a process of its own, for its share of the minutes. After a warm-up that
fills what is kept on purpose (caches of bounded size, modules), its resources are noted 30 times,
at even distances. What grows from the first third of the notes to the last is a leak: memory by
more than 2 MiB and more than 64 bytes a turn, or any count by more than a handful. A turn may leave
that much because a run of LLVM's passes does: llvmlite frees neither the callback that a run adds
nor all of a builder, 43 bytes and 1,488 for 128 modules (llvm_leaks.py measures it).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from kinds_of_work import WORK

NOTES, WARM = 30, 0.25  # the warm-up is this share of the time,
WARM_TURNS = 150  # and so many turns: twice the programs that a model keeps for its sizes
LARGEST_GROWTH = 2 << 20  # bytes
BYTES_A_TURN = 64
COUNTS = {"files open": 2, "threads": 1, "maps": 24, "objects": 400, "temporary files": 2}


def _entries(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def resources(folder: Path) -> dict[str, int]:
    """What the process has now; memory is what it wrote and shares with no other, in bytes. Clean
    pages are files': they become private when the last other process that maps the file ends.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/smaps_rollup").read_text().splitlines()
    private = sum(int(s.split()[1]) for s in status if s.startswith(("Private_Dirty:", "Swap:")))
    return {
        "memory": private * 1024,
        "files open": _entries("/proc/self/fd"),
        "threads": _entries("/proc/self/task"),
        "maps": Path("/proc/self/maps").read_text().count("\n"),
        "objects": len(gc.get_objects()),
        "temporary files": sum(len(files) for _, _, files in os.walk(folder / "tmp")),
    }


def growth(notes: list[dict[str, int]], turns: list[int]) -> dict[str, int]:
    """What grew beyond its bound, by how much."""
    third = len(notes) // 3
    done = max(1, turns[-1 - third // 2] - turns[third // 2])
    found = {}
    for name in notes[0]:
        early, late = (
            int(median(n[name] for n in part)) for part in (notes[:third], notes[-third:])
        )
        bound = max(LARGEST_GROWTH, BYTES_A_TURN * done) if name == "memory" else COUNTS[name]
        if late - early > bound:
            found[name] = late - early
    return found


def run(name: str, seconds: float, folder: Path) -> dict[str, int]:
    """One kind of work for so long, in this process."""
    turn = WORK[name](folder)
    start, n = time.monotonic(), 0
    notes: list[dict[str, int]] = []
    turns: list[int] = []
    while len(notes) < NOTES:
        turn(n)
        n += 1
        due = start + seconds * (WARM + (1 - WARM) * (len(notes) + 1) / NOTES)
        if n >= WARM_TURNS and time.monotonic() >= due:
            notes.append(resources(folder))
            turns.append(n)
    first, last = notes[0], notes[-1]
    shown = ", ".join(f"{key} {first[key]:,} to {last[key]:,}" for key in first)
    print(f"{name}: {n:,} turns; {shown}", flush=True)
    return growth(notes, turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of all kinds together")
    parser.add_argument("--work", default="", help="one kind, in this process")
    asked = parser.parse_args()
    if asked.work:
        found = run(asked.work, asked.minutes * 60, Path(tempfile.gettempdir()).parent)
        if found:
            sys.exit(f"{asked.work}: grew by {found}")
        return
    wrong = []
    for name in WORK:
        with tempfile.TemporaryDirectory(prefix="xlac-leaks-") as made:
            (Path(made) / "tmp").mkdir()
            environment = {
                **os.environ,
                "TMPDIR": f"{made}/tmp",
                "XLAC_CACHE": f"{made}/cache",
                "XLAC_CACHE_BYTES": str(1 << 24),
            }
            share = str(asked.minutes / len(WORK))
            command = [sys.executable, __file__, "--work", name, "--minutes", share]
            if subprocess.run(command, env=environment, check=False).returncode:
                wrong.append(name)
    if wrong:
        sys.exit(f"something is left behind by: {', '.join(wrong)}")
    print(f"nothing is left behind by {len(WORK)} kinds of work")


if __name__ == "__main__":
    main()
