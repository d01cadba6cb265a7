"""What the machine gives beside every burst: the peak of f32 arithmetic, alone and together, and the bandwidth of its memory."""
from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from .roofline import mixes

SOURCE = Path(__file__).resolve().parent.parent / "machine" / "cores.c"
APART = 1.7 / 2                       # of so many times one core's rate: less, and cores are on one physical core
PATIENCE = 1.0                        # seconds to wait for cores that are apart
LARGE = 16 << 20                      # bytes that caches do not hold for sure: their bandwidth changes from hour to hour


class Cores:
    """A process that measures for some milliseconds when asked; it sleeps otherwise. Its memory is as large as a workload's data."""

    def __init__(self, threads: int, meta: dict):
        self.threads = threads
        self.best = 0.0               # GFLOP/s of one core, so far
        self.large = meta["min_bytes"] >= LARGE
        with tempfile.TemporaryDirectory() as folder:
            binary = f"{folder}/cores"
            subprocess.run(["gcc", "-O3", "-march=native", "-pthread", str(SOURCE), "-o", binary], check=True)
            what = [str(threads), str(meta["min_bytes"] if self.large else 0), str(int(mixes(meta)))]
            self._process = subprocess.Popen([binary, *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                             start_new_session=True)
        try:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, -20)
            Path(f"/proc/{self._process.pid}/autogroup").write_text("-20")   # of its session, as a contender's (protocol.py)
        except OSError:
            pass

    def look(self) -> dict[str, float]:
        """GFLOP/s of the last core alone and of the first `threads` cores together."""
        alone, together = self._ask("\n")
        self.best = max(self.best, alone)
        return {"alone": alone, "together": together}

    def bandwidth(self) -> float:
        """GB/s of as many bytes as the workload's; 0 for a workload that is not large."""
        return self._ask("bandwidth\n")[0] if self.large else 0.0

    def _ask(self, line: str) -> list[float]:
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return [float(rate) for rate in self._process.stdout.readline().split()]

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
