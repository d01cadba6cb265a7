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
    # rules undid each other until the limit: a bug in them, but the graph is valid
    gave_up: bool = False

    def permits(self, rule: object, node: Node) -> bool:
        """Records a rewrite and returns whether it is permitted; called by every pass before each
        rewrite.
        """
        if self.fuel is not None and len(self.fired) >= self.fuel:
            return False
        stage = f"{self.stage}: " if self.stage else ""
        self.fired.append(f"{stage}{rule} at {node.origin or node.op.mnemonic}")
        return True
