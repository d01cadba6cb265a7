"""What the machine gives beside every burst: the peak of f32 arithmetic, alone and together, and
the bandwidth of its memory.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .contenders import PEERS
from .roofline import mixes
from .samples import APART

SOURCE = PEERS / "machine" / "cores.c"
PATIENCE = 1.0  # seconds to wait for cores that are apart
LARGE = 16 << 20  # bytes that caches do not hold: their bandwidth changes from hour to hour


def built(folder: Path) -> Path | None:
    """The program that measures, compiled if it is not there; None where there is no compiler."""
    binary = folder / "cores"
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        flags = ["-O3", "-march=native", "-pthread", str(SOURCE), "-o", str(binary)]
        try:
            subprocess.run(["gcc", *flags], check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
    return binary


class Cores:
    """A process that measures for some milliseconds when asked; it sleeps otherwise. Its memory is
    as large as a row's data.
    """

    def __init__(self, binary: Path, threads: int, meta: Mapping[str, Any]) -> None:
        self.threads = threads
        self.best = 0.0  # GFLOP/s of one core, so far
        self.large = meta["min_bytes"] >= LARGE
        what = [str(threads), str(int(meta["min_bytes"]) if self.large else 0)]
        self._process = subprocess.Popen(
            [str(binary), *what, str(int(mixes(meta)))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with contextlib.suppress(OSError):  # of its session, as a contender's (protocol.py)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, -20)
            Path(f"/proc/{self._process.pid}/autogroup").write_text("-20")

    def look(self) -> dict[str, float]:
        """GFLOP/s of the last core alone and of the first `threads` cores together."""
        alone, together = self._ask("\n")
        self.best = max(self.best, alone)
        return {"alone": alone, "together": together}

    def bandwidth(self) -> float:
        """GB/s of as many bytes as the row's; 0 for a row that is not large."""
        return self._ask("bandwidth\n")[0] if self.large else 0.0

    def _ask(self, line: str) -> list[float]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return [float(rate) for rate in self._process.stdout.readline().split()]

    def apart(self, seen: Mapping[str, float]) -> float:
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
        """Ends the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
