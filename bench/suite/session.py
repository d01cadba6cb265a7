"""One live contender process: started, asked for bursts, told to quit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

from .contenders import PEERS, Contender


class Session:
    """A contender's process on one row; `ready` is what it said when it had compiled, `failure`
    why it is of no use, or empty.
    """

    def __init__(
        self,
        contender: Contender,
        folder: Path,
        threads: int,
        log: Path,
        cache: Path | None = None,
        core: int | None = None,
    ) -> None:
        """`cache` is the folder where it keeps its programs, if it does; `core` the one that it
        prepares on if it is to use one thread (None: the one that it is measured on).
        """
        self.contender, self.threads = contender, threads
        self.ready: dict[str, Any] | None = None
        self.failure = ""
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("w")
        env = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(PEERS.parent)}
        if cache:
            env[contender.cache] = str(cache)
        if core is not None:
            env["SUITE_CORE"] = str(core)
        self._process = subprocess.Popen(
            contender.command(folder, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env=env | contender.env,
        )

    def _answer(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            self.close(kill=True)
            return {"event": "error", "message": f"no answer in {timeout:.0f} s"}
        line = self._process.stdout.readline()
        if not line:
            return {"event": "error", "message": f"process ended with {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def prepare(self, timeout: float) -> None:
        """Waits until it has compiled, called once and compared the result."""
        event = self._answer(timeout)
        if event["event"] != "ready":
            self.failure = f"{event['event']}: {event['message']}"
        elif not event["ok"]:
            self.failure = f"wrong result: relative error {event['rel_error']:.2g}"
        if event["event"] == "ready":
            self.ready = {k: v for k, v in event.items() if k not in ("event", "ok")}
        if self.failure:
            self.close(kill=True)

    def measure(self, seconds: float, timeout: float = 120) -> dict[str, Any] | None:
        """One burst; None if the process fails, whose failure is then set."""
        assert self._process.stdin
        try:
            self._process.stdin.write(f"measure {seconds}\n")
            self._process.stdin.flush()
            event = self._answer(timeout)
        except OSError as error:
            event = {"event": "error", "message": f"process ended: {error}"}
        if event["event"] == "burst":
            return {k: v for k, v in event.items() if k != "event"}
        self.failure = str(event["message"])
        self.close(kill=True)
        return None

    def close(self, kill: bool = False) -> None:
        """Ends the process."""
        if self._process.poll() is None and not kill:
            assert self._process.stdin
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                self._process.stdin.write("quit\n")
                self._process.stdin.flush()
                self._process.wait(10)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._log.close()
