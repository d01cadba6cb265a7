"""A program of its own that turns portable bytecode into text by jaxlib's bindings; bytecode.py
starts it.

Damaged bytecode can end the process that decodes it. Requests come on standard input and answers go
to standard output: a length in 8 bytes, then the bytes; an answer begins with T (text), E (what is
wrong) or M (jaxlib is missing). Its arguments are where it finds jaxlib: the folders of `sys.path`.
It imports nothing of xlac.
"""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Answers requests on standard input until it ends: eight bytes of length, then bytecode;
    the same with what `decoded` gives.
    """
    sys.path[:] = sys.argv[1:]
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(8)) == 8:
        answer = decoded(source.read(int.from_bytes(head, "little")))
        sink.write(len(answer).to_bytes(8, "little") + answer)
        sink.flush()


def decoded(data: bytes) -> bytes:
    """T and the text of a module's bytecode, E and the error, or M where jaxlib is missing."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import chlo, func, stablehlo
    except ImportError:
        return b"M"
    with ir.Context() as context:
        for dialect in (chlo, stablehlo):
            dialect.register_dialect(context)
        assert func
        said: list[str] = []

        def heard(diagnostic: Any) -> bool:
            said.append(diagnostic.message)
            return True

        context.attach_diagnostic_handler(heard)
        try:
            module = stablehlo.deserialize_portable_artifact(context, data)
            text: str = module.operation.get_asm(enable_debug_info=False)
            return b"T" + text.encode()
        except Exception as error:  # the bindings raise what they like
            return b"E" + (said[0] if said else str(error))[:300].encode()


if __name__ == "__main__":
    main()
