"""What the machine's cores give beside every burst: the peak of f32 arithmetic, alone and together."""
from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "machine" / "cores.c"
APART = 1.7 / 2                       # of so many times one core's rate: less, and cores are on one physical core
PATIENCE = 1.0                        # seconds to wait for cores that are apart


class Cores:
    """A process that measures for two milliseconds when asked; it sleeps otherwise."""

    def __init__(self, threads: int):
        self.threads = threads
        self.best = 0.0               # GFLOP/s of one core, so far
        with tempfile.TemporaryDirectory() as folder:
            binary = f"{folder}/cores"
            subprocess.run(["gcc", "-O3", "-march=native", "-pthread", str(SOURCE), "-o", binary], check=True)
            self._process = subprocess.Popen([binary, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, -20)
        except PermissionError:
            pass

    def look(self) -> dict[str, float]:
        """GFLOP/s of the last core alone and of the first `threads` cores together."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        alone, together = map(float, self._process.stdout.readline().split())
        self.best = max(self.best, alone)
        return {"alone": alone, "together": together}

    def apart(self, seen: dict[str, float]) -> float:
        """The rate together, as a share of what so many cores give that are apart."""
        return seen["together"] / (self.threads * self.best)

    def settle(self) -> dict[str, float]:
        """The first look at which cores are apart, or the last one when patience ends."""
        begin = time.monotonic()
        while True:
            seen = self.look()
            if self.apart(seen) >= APART or time.monotonic() - begin > PATIENCE:
                return seen
            time.sleep(0.03)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
