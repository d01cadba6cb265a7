"""A standalone program that converts portable bytecode to text by jaxlib's bindings;
bytecode/read.py starts it.

Damaged bytecode can crash the process that decodes it. Requests come on standard input and answers
go to standard output: a length in 8 bytes, then the bytes (see `main`); an answer begins with T
(text), E (an error) or M (jaxlib is missing). A request that takes too long ends the process. Its
arguments are the folders of `sys.path`, where it finds jaxlib. It imports nothing of xlac.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any


def main() -> None:
    """Answers requests on standard input until end of file: eight bytes of length, eight of the
    seconds that decoding may take, then bytecode; answers are eight bytes of length, then the bytes
    of `decoded`.
    """
    sys.path[:] = sys.argv[1:]
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(16)) == 16:
        limit(int.from_bytes(head[8:], "little"))
        answer = decoded(source.read(int.from_bytes(head[:8], "little")))
        sink.write(len(answer).to_bytes(8, "little") + answer)
        sink.flush()


def limit(seconds: int) -> None:
    """Limits this process to `seconds` more of processor time (SIGXCPU)."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        most = int(time.process_time()) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def decoded(data: bytes) -> bytes:
    """T and the text of the module, E and the error, or M if jaxlib is missing."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import chlo, func, stablehlo
    except ImportError:
        return b"M"
    with ir.Context() as context:
        for dialect in (chlo, stablehlo):
            dialect.register_dialect(context)
        assert func
        with suppress(ImportError):  # jaxlib before 0.5 has none
            from jaxlib.mlir.dialects import sdy

            sdy.register_dialect(context)
        said: list[str] = []

        def heard(diagnostic: Any) -> bool:
            said.append(diagnostic.message)
            return True

        context.attach_diagnostic_handler(heard)
        try:
            module = stablehlo.deserialize_portable_artifact(context, data)
            text: str = module.operation.get_asm(enable_debug_info=False)
            return b"T" + text.encode()
        except Exception as error:  # the bindings may raise any exception
            return b"E" + (said[0] if said else str(error))[:300].encode()


if __name__ == "__main__":
    main()
