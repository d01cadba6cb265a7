"""Errors for operations that xlac does not support, collected and reported together."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.support.choices import similar

EXCHANGES = "_c10d_functional."
"""Begins the names of operations by which the processes of torch.distributed exchange values."""
DIVIDED = "give xlac.from_torch a module whose parameters are DTensors, or use torch.compile"

FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in ')


class NotExpressible(Exception):
    """Raised by a builder for something that xlac cannot express. The message is for the user."""


@dataclass(frozen=True, slots=True)
class UnsupportedNode:
    """A node that cannot be imported: its operation, the reason, and the Python line that called
    it.
    """

    node: Any  # torch.fx.Node
    operation: str
    reason: str
    known: bool  # whether the operation itself is supported, so that only this use is at fault

    @property
    def span(self) -> Span | None:
        """The innermost stack frame of user code, outside of PyTorch."""
        frames = [(f, int(n)) for f, n in FRAME.findall(self.node.meta.get("stack_trace") or "")]
        own = [frame for frame in frames if "/torch/" not in frame[0]]
        if not frames:
            return None
        file, line = (own or frames)[-1]
        path = Path(file)
        text = ""
        with suppress(OSError, IndexError, ValueError):
            # the path may come from a file of torch.export, so it is not opened
            if path.suffix != ".py" or not path.is_file():
                return None
            text = path.read_text(encoding="utf-8", errors="replace").splitlines()[line - 1]
        column = len(text) - len(text.lstrip()) + 1
        return Span(path, line, column, max(1, len(text.strip())))

    def diagnostic(self, names: list[str]) -> Diagnostic:
        """The diagnostic; `names` are all supported operations, for suggestions."""
        if self.known:
            return Diagnostic(
                "XL7302", f"{self.operation} ('{self.node.name}'): {self.reason}", self.span
            )
        base = self.operation.rpartition(".")[0]
        near = [n for n in names if n.rpartition(".")[0] == base] or similar(
            self.operation, names, 3
        )
        hint = f"nearest: {', '.join(near[:3])}" if near else ""
        hint = DIVIDED if self.operation.startswith(EXCHANGES) else hint
        return Diagnostic(
            "XL7301", f"{self.operation} ('{self.node.name}'): {self.reason}", self.span, hint
        )


def refused(nodes: list[UnsupportedNode], names: list[str]) -> SourceError:
    """One error for all nodes; the same operation at the same line is reported once."""
    diagnostics: dict[tuple[str, str, object], Diagnostic] = {}
    for one in nodes:
        diagnostics.setdefault((one.operation, one.reason, one.span), one.diagnostic(names))
    return SourceError(*diagnostics.values())
