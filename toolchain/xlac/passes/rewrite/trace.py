"""A record of every rewrite, which may also refuse one: dumps and bisection are made with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.ir.graph import Node


@dataclass
class Trace:
    """Permits the first `fuel` rewrites; all of them by default."""

    fuel: int | None = None
    fired: list[str] = field(default_factory=list)
    stage: str = ""  # the pass that is running
    # rules undid each other until a limit stopped them: a bug of theirs, but the graph is sound
    gave_up: bool = False

    def permits(self, rule: object, node: Node) -> bool:
        """Asked before each rewrite, by every pass."""
        if self.fuel is not None and len(self.fired) >= self.fuel:
            return False
        stage = f"{self.stage}: " if self.stage else ""
        self.fired.append(f"{stage}{rule} at {node.origin or node.op.mnemonic}")
        return True
