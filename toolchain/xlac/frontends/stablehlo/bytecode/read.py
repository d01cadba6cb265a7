"""Converts portable bytecode to text by jaxlib's MLIR bindings, in a separate process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn

from xlac_sdk.source import Diagnostic, SourceError

MAGIC = b"ML\xefR"
SECONDS, SECONDS_A_MEGABYTE = 10, 1  # of processor time; damaged bytecode may never be decoded
PROGRAM = Path(__file__).with_name("decoder.py")


def is_bytecode(data: bytes) -> bool:
    """Whether the data starts with the magic number of MLIR bytecode."""
    return data.startswith(MAGIC)


def text_of(data: bytes, file: Path) -> str:
    """The module of portable bytecode as text, in the dialect's current version. Raises
    SourceError.
    """
    if kept := _kept.get():
        return kept.text_of(data, file)
    with closing(Decoder()) as decoder:
        return decoder.text_of(data, file)


@contextmanager
def using(decoder: Decoder) -> Iterator[None]:
    """A context in which all bytecode is decoded by one process; outside, each file
    starts its own.
    """
    token = _kept.set(decoder)
    try:
        yield
    finally:
        _kept.reset(token)


class Decoder:
    """A process that decodes bytecode. If bytecode crashes it, a new one is started for the next
    request.
    """

    def __init__(self) -> None:
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        # so that it finds the jaxlib that this process would import
        path = [part for part in sys.path if part]
        return subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), *path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def text_of(self, data: bytes, file: Path) -> str:
        """The text of bytecode. Raises SourceError if jaxlib refuses it or crashes."""
        if self.process.poll() is not None:
            self.process = self._started()
        try:
            answer = self._ask(data)
        # stop it also on interrupts: a late answer would be taken for that of the next request
        except BaseException:
            self.process.kill()
            raise
        match answer[:1]:
            case b"T":
                return answer[1:].decode()
            case b"M":
                problem = f"{file} is bytecode, which needs jaxlib"
                raise SourceError(
                    Diagnostic(
                        "XL7210",
                        problem,
                        hint="pip install 'xlac[stablehlo]', or write text: mlir_module()",
                    )
                )
            case b"E":
                fail(file, answer[1:].decode("utf-8", "replace"))
        code = self.process.wait()
        if code == -getattr(signal, "SIGXCPU", 0):
            fail(file, f"decoding it takes more than {_seconds(data)} s of processor time")
        fail(
            file,
            "jaxlib's decoder crashes on it "
            f"({signal.Signals(-code).name if code < 0 else f'code {code}'})",
        )

    def _ask(self, data: bytes) -> bytes:
        """The answer; empty if the process ended."""
        source, sink = self.process.stdout, self.process.stdin
        assert source is not None and sink is not None
        with suppress(BrokenPipeError):
            sink.write(b"".join(n.to_bytes(8, "little") for n in (len(data), _seconds(data))))
            sink.write(data)
            sink.flush()
        head = source.read(8)
        answer = source.read(int.from_bytes(head, "little")) if len(head) == 8 else b""
        return answer

    def close(self) -> None:
        """Ends the process."""
        with suppress(BrokenPipeError):
            self.process.communicate()  # closing its standard input ends it


def _seconds(data: bytes) -> int:
    """The processor time that decoding may take: many times what it should."""
    return SECONDS + SECONDS_A_MEGABYTE * len(data) // 1_000_000


_kept: ContextVar[Decoder | None] = ContextVar("kept", default=None)


def fail(file: Path, what: str) -> NoReturn:
    """Raises SourceError for data that is not bytecode."""
    raise SourceError(Diagnostic("XL7211", f"{file} is not StableHLO bytecode: {what}"))
