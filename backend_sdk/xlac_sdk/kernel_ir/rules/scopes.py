"""The names visible at a place in a kernel."""

from __future__ import annotations

from xlac_sdk.kernel_ir.kernel import Buffer, LoopKind, Var


class KernelScope:
    """The names and buffers visible at a place in a kernel. Definitions in a scope end with it."""

    def __init__(self, around: KernelScope | None = None, kind: LoopKind | None = None) -> None:
        self.names: dict[str, Var | Buffer] = dict(around.names) if around else {}
        self.mutable: set[str] = set(around.mutable) if around else set()
        self.buffers: set[Buffer] = set(around.buffers) if around else set()
        # expressions, by identity, that are known to use only visible names
        self.visible: set[int] = set(around.visible) if around else set()
        self.kinds: tuple[LoopKind, ...] = (around.kinds if around else ()) + (
            (kind,) if kind else ()
        )
