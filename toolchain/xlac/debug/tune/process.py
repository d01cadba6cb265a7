"""The other side of `worker.py`: starts the process, asks, and starts another when it crashed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any, Protocol, Self

from xlac_sdk.source import Diagnostic, XlacError

Answer = dict[str, Any]

STARTING = 600.0
"""Seconds in which a worker must have read and lowered the model."""


class WorkerLost(XlacError):
    """The process crashed, or did not answer in time."""


class Asks(Protocol):
    """A process that builds and times programs: `TuningProcess`, or another one in tests."""

    def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """The answer to a request. Raises WorkerLost."""
        ...

    def close(self) -> object:
        """Ends the process; the next request starts another."""
        ...


def ask_surely(worker: Asks, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The answer to a request that must not fail. Raises XlacError with what was said."""
    answer = worker.ask(request, seconds)
    if answer.get("why") == "failed":
        raise XlacError(Diagnostic("XL5044", f"the model cannot be tuned: {answer['text']}"))
    return answer


class TuningProcess:
    """A worker process, started when it is first asked. `program` is its Python program and `head`
    the first line of its input, which says what to tune.
    """

    def __init__(self, program: str, head: str) -> None:
        self.program, self.head = program, head
        self.child: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any], seconds: float) -> Answer:
        """The answer to a request. Raises WorkerLost if the process ends instead, or takes longer
        than `seconds` (and STARTING, if it is a new one).
        """
        if self.child is None:
            self._start()
            seconds += STARTING
        child = self.child
        assert child is not None and child.stdin is not None and child.stdout is not None
        late = threading.Timer(seconds, child.kill)
        late.start()
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except (OSError, ValueError):
            line = ""
        finally:
            late.cancel()
        if not line.endswith("\n"):
            raise WorkerLost(Diagnostic("XL5044", self._ended()))
        answer: Answer = json.loads(line)
        return answer

    def _start(self) -> None:
        command = [sys.executable, "-c", self.program]
        # in a session of its own, so that Ctrl-C does not end it in the midst of an answer
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        stdin: IO[str] | None = self.child.stdin
        assert stdin is not None
        stdin.write(self.head + "\n")

    def _ended(self) -> str:
        code = self.close()
        return f"the process that measures ended with {code}"

    def close(self) -> int | None:
        """Ends the process, if there is one; returns its exit code."""
        child, self.child = self.child, None
        if child is None:
            return None
        child.kill()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not written yet
                    continue
        return child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
