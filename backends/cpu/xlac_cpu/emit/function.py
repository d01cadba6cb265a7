"""A kernel as an LLVM function. Local names are numbers, so equal kernels give equal text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac_cpu.emit.statements import NEVER, STRIP, KernelWriter
from xlac_cpu.emit.style import Style
from xlac_sdk.kernel_ir.kernel import Access, Const, For, Kernel

_ATTRIBUTE = {
    Access.READ: "readonly ",
    Access.WRITE: "writeonly ",
    Access.REREAD: "",
    Access.UPDATE: "",
}


PRODUCTS = "xlac-products"
"""The attribute of functions that are mostly products of explicit vectors: LLVM's pass that
combines instructions finds nothing in their loops, and is a tenth of the time that they take.
"""
SHARE = 10  # one line of so many multiplies and adds in such a function
UNREDUCED = "; loops of products"
"""The second line of a module of kernels that are mostly products, for which LLVM's loop strength
reduction gains nothing: their addresses are constants from pointers.
"""


def _is_products(body: str) -> bool:
    dense = SHARE * body.count("@llvm.fma.") >= body.count("\n")
    # functions that look at bits have expansions of others, which are combined
    return dense and " = bitcast <" not in body


def _attributes(body: str) -> str:
    return f'"{PRODUCTS}" #0' if _is_products(body) else "#0"


@dataclass(frozen=True, slots=True)
class FunctionText:
    """A function's text, without its name."""

    parameters: str
    body: str
    ranged: bool  # whether it takes the range of its parallel loop
    # parameters and body of the function `STRIP`, which it calls
    strip: tuple[str, str] | None = None

    @property
    def letters(self) -> int:
        """The length of its text, in characters."""
        return len(self.body) + (len(self.strip[1]) if self.strip else 0)

    @property
    def products(self) -> bool:
        """Whether it is mostly products: what it does, not how it calls that."""
        return _is_products(self.strip[1] if self.strip else self.body)

    def named(self, symbol: str) -> str:
        """The function's definition, and that of the function that it calls."""
        kind = _attributes(self.body)
        text = f"define hidden void @{symbol}({self.parameters}) {kind} {{\n{self.body}"
        if self.strip is None:
            return text
        parameters, body = self.strip
        kind = f"noinline {_attributes(body)}"
        inner = f"define internal void @{symbol}.strip({parameters}) {kind} {{\n{body}"
        return f"{inner}\n\n{text.replace(STRIP, f'@{symbol}.strip')}"


def write(
    kernel: Kernel,
    aligns: tuple[int, ...],
    style: Style,
    declarations: dict[str, None],
    stop_checks: Mapping[int, int] = NEVER,
) -> FunctionText:
    """The text of a kernel. `aligns`: the known alignment of each argument in bytes.

    `stop_checks` maps loops, by identity, to the number of iterations between stop checks; a kernel
    with checks takes the address of the stop flag after its buffers.
    """
    parameters = [
        f"ptr noalias captures(none) {_ATTRIBUTE[b.access]}align {a} %p{i}"
        for i, (b, a) in enumerate(zip(kernel.parameters, aligns, strict=True))
    ]
    parameters += ["ptr %stop"] * bool(stop_checks)
    parameters += [f"i64 %n{i}" for i in range(len(kernel.sizes))]
    ranged = [*parameters, "i64 %begin", "i64 %end"]
    writer = KernelWriter(style, declarations, kernel, aligns)
    writer.stop_checks = stop_checks
    if style.threads:
        writer.ranged = kernel.parallel
    taken = ", ".join(parameters if writer.ranged is None else ranged)
    cut = _cut(kernel, stop_checks)
    if cut is None:
        return FunctionText(taken, writer.whole(kernel), writer.ranged is not None)
    strip = KernelWriter(style, declarations, kernel, aligns)
    strip.stop_checks = {loop: turns for loop, turns in stop_checks.items() if loop != id(cut)}
    strip.ranged, strip.some = cut, True
    inner = strip.whole(kernel)
    given = [f"{text.split()[0]} {text.split()[-1]}" for text in parameters]
    return FunctionText(
        taken, writer.calls(cut, given), writer.ranged is not None, (", ".join(ranged), inner)
    )


def _cut(kernel: Kernel, stop_checks: Mapping[int, int]) -> For | None:
    """The outermost loop of a kernel that consists of just that loop, if it has stop checks.

    Its strips are calls of a separate function: with a loop over strips and a check inline, LLVM
    would have fewer registers for the inner loops, which would be up to a twentieth slower.
    """
    match kernel.body:
        case (For(counter=counter) as loop,) if (
            id(loop) in stop_checks and counter.dtype.bits == 64
        ):
            start, stop = (
                e.value if isinstance(e, Const) else None for e in (loop.start, loop.stop)
            )
            short = (
                start is not None
                and stop is not None
                and int(stop) - int(start) <= stop_checks[id(loop)] * loop.step
            )
            return None if short else loop
    return None
