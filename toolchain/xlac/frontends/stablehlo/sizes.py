"""The sizes of arguments that the text leaves open: their names, what assertions say of them, and
what the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any, NamedTuple, NoReturn

from xlac.frontends.sizes import OPT, sized
from xlac.frontends.stablehlo.scope import AssertedRange
from xlac.frontends.stablehlo.text.errors import MlirSource
from xlac.frontends.stablehlo.text.syntax import TensorType
from xlac.ir import dims as sizes
from xlac.ir.dims import UNBOUNDED, Dim, Shape, Sym, Symbol, substitute, symbols
from xlac.ir.parse import TOKEN, Parser
from xlac.ir.ranges import usual_opt

LENGTH, TERMS = 200, 32  # the most characters and terms of a size that an attribute states
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPTIMAL = re.compile(rf"({WORD.pattern})=([0-9]{{1,18}})")  # a name, and a size to optimise for


@dataclass(slots=True)
class LearnedSizes:
    """What attempts to import have found out: symbols that are other sizes, and ranges."""

    equal: dict[str, Dim] = field(default_factory=dict)
    ranges: dict[str, AssertedRange] = field(default_factory=dict)

    def narrow(self, asserted: Iterable[AssertedRange]) -> bool:
        """Adds what assertions say of symbols; whether anything of it is new."""
        before = dict(self.ranges)
        for more in asserted:
            known = self.ranges.get(more.name, more)
            low, high = max(known.low, more.low), min(known.high, more.high)
            by = lcm(known.multiple_of, more.multiple_of)
            self.ranges[more.name] = AssertedRange(more.name, low, high, by)
        return self.ranges != before


class StatedSizes(NamedTuple):
    """What attributes of an argument state, as `xlac export` writes them: the text of each size,
    and sizes to optimise for (`"batch=16"`).
    """

    sizes: object = None
    opt: object = None


class ArgumentSizes:
    """The sizes of one module's arguments, by what is known in one attempt."""

    def __init__(
        self, source: MlirSource, at: int, dims: Mapping[str, Any], learned: LearnedSizes
    ) -> None:
        self.source, self.at = source, at
        self.dims, self.learned = dims, learned
        self.opt: dict[str, int] = {}  # sizes to optimise for
        self.met: set[str] = set()

    def shape(self, label: str, type: TensorType, stated: StatedSizes) -> Shape:
        """The shape of an argument."""
        texts: list[Any] = [*stated.sizes] if isinstance(stated.sizes, list) else []
        if stated.sizes is not None and not (
            len(texts) == len(type.shape) and all(isinstance(text, str) for text in texts)
        ):
            self._wrong(label, f"must be a list of {len(type.shape)} strings")
        self._wanted(label, stated.opt)
        return tuple(
            size
            if size is not None
            else self._stated(label, texts[axis])
            if texts
            else self._symbol(f"{label}_{axis}", type.bounds[axis] if type.bounds else None)
            for axis, size in enumerate(type.shape)
        )

    def _wanted(self, label: str, stated: object) -> None:
        """Notes the sizes to optimise for."""
        texts = stated if isinstance(stated, list) else [] if stated is None else [""]
        for text in texts:
            match = OPTIMAL.fullmatch(text) if isinstance(text, str) else None
            if match is None:
                self._wrong(label, "must be a list of strings such as 'batch=16'", "xlac.opt")
            self.opt.setdefault(match[1], int(match[2]))

    def _stated(self, label: str, text: str) -> Dim:
        try:
            size = SizeText(text).whole()
        except ValueError as error:
            self._wrong(label, f"has {text[:60]!r}: {error}")
        return substitute(size, {s.name: self._symbol(s.name, None) for s in symbols(size)})

    def _wrong(self, label: str, problem: str, attribute: str = "xlac.sizes") -> NoReturn:
        text = f"argument {label[:60]!r}: attribute '{attribute}' {problem}"
        self.source.fail("XL7203", text, self.at, hint="leave the attribute out")

    def _symbol(self, name: str, most: int | None) -> Dim:
        self.met.add(name)
        if name not in self.dims and name in self.learned.equal:
            equal = self.learned.equal
            solved = equal[name]
            while symbols(solved) & {s for s in symbols(solved) if s.name in equal}:
                solved = substitute(solved, equal)
            return substitute(solved, {s.name: self._open(s.name, None) for s in symbols(solved)})
        return self._open(name, most)

    def _open(self, name: str, most: int | None) -> Dim:
        if name in self.dims:
            size = sized(name, self.dims[name])
        else:
            size = sizes.symbol(name, 0, most or UNBOUNDED, opt=OPT)
        if not isinstance(size, Sym):
            return size
        (symbol,) = symbols(size)
        known = self.learned.ranges.get(symbol.name)  # which may be called otherwise
        if known is not None:
            symbol = self._narrowed(symbol, known)
        opt = self.opt.get(name, symbol.opt)
        if symbol.min <= opt <= symbol.max and opt % symbol.multiple_of == 0:
            symbol = replace(symbol, opt=opt)  # else the caller's range has others
        return Sym((((symbol,), 1),))

    def _narrowed(self, symbol: Symbol, known: AssertedRange) -> Symbol:
        by = known.multiple_of
        low, high = max(symbol.min, known.low), min(symbol.max, known.high)
        low, high = -(-low // by) * by, high // by * by if high < UNBOUNDED else high
        if low > high:
            text = f"no value of size {symbol.name} satisfies the assertions on it"
            self.source.fail("XL7212", text, self.at)
        opt = usual_opt(low, high, by)
        return replace(symbol, min=low, max=high, opt=opt, multiple_of=by)


class SizeText(Parser):
    """A size as text: sums of products of numbers and names, such as `2*n + 1`."""

    def __init__(self, text: str) -> None:
        super().__init__("")
        if len(text) > LENGTH:
            raise ValueError(f"it has more than {LENGTH} characters")
        self.tokens = [token for token in TOKEN.findall(text) if not token.isspace()]
        self.symbols = {t: Symbol(t) for t in self.tokens if WORD.fullmatch(t)}

    def whole(self) -> Dim:
        """The size that the text is. Raises ValueError."""
        try:
            size = self.size()
        except (KeyError, IndexError, AssertionError, ZeroDivisionError):
            raise ValueError("it is not a size") from None
        if self.tokens:
            raise ValueError("it is not a size")
        return size

    def product(self) -> Dim:
        product = _few(self.factor())
        while self.peek() == "*":
            self.take()
            product = _few(product * self.factor())
        return product

    def factor(self) -> Dim:
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before == "//" and not token.isdecimal():
                raise ValueError("only numbers divide")
        return super().factor()


def _few(size: Dim) -> Dim:
    terms = size.parts if isinstance(size, Sym) else (((), size),)
    if len(terms) > TERMS or any(abs(factor) > UNBOUNDED for _, factor in terms):
        raise ValueError("it has too many terms, or a number that is too large")
    return size
