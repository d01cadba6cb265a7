"""The report of a conformance run: a summary for the terminal, a page for a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac_sdk.conformance.case import Outcome
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class Row:
    """One primitive, group or operation: how the target supports it, and the results of
    its cases.
    """

    name: str
    how: str  # native, partly, expanded, claimed or ""
    passed: int
    failed: int
    unsupported: int
    left_out: int  # for an element type that the target lacks
    details: tuple[Outcome, ...]  # of the cases that ran and did not pass
    seconds: float = 0  # that its cases took

    @property
    def status(self) -> str:
        """`failed`, `unsupported`, `passed`, or `left out` if nothing ran."""
        if self.failed or self.unsupported:
            return "failed" if self.failed else "unsupported"
        return "passed" if self.passed or not self.left_out else "left out"


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The outcomes of a backend's conformance run."""

    backend: str
    target: Target
    outcomes: tuple[Outcome, ...]
    operations: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    # that the cases of each group took, with "operation NAME" for those of operations
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def everything(self) -> list[Outcome]:
        """The outcomes of all cases, operations' too."""
        return [*self.outcomes, *(o for outcomes in self.operations.values() for o in outcomes)]

    @property
    def failed(self) -> list[Outcome]:
        """The cases that failed, operations' too."""
        return [o for o in self.everything if o.status == "failed"]

    @property
    def refusals(self) -> dict[str, int]:
        """Why cases are unsupported: the first line of each reason, with how many have it, the most
        frequent first.
        """
        reasons = Counter(
            o.detail.strip().partition("\n")[0]
            for o in self.everything
            if o.status == "unsupported"
        )
        return dict(reasons.most_common())

    @property
    def ok(self) -> bool:
        """Whether none failed, and some passed unless all are for element types that the target
        lacks: a backend that refuses every case works for nobody.
        """
        statuses = {o.status for o in self.everything}
        return "failed" not in statuses and ("passed" in statuses or "unsupported" not in statuses)

    def primitives(self) -> list[Row]:
        """A row for each primitive that a case is about."""
        names = {p.value for p in Primitive}
        return [
            _row(p.value, self._spelled(p), self._of(p.value), self.seconds.get(p.value, 0))
            for p in Primitive
            if p.value in names and self._of(p.value)
        ]

    def groups(self) -> list[Row]:
        """A row for each group of cases that does not test a primitive."""
        names = {p.value for p in Primitive}
        return [
            _row(g, "", self._of(g), self.seconds.get(g, 0))
            for g in dict.fromkeys(o.group for o in self.outcomes)
            if g not in names
        ]

    def ops(self) -> list[Row]:
        """A row for each operation."""
        claims = self.target.claims
        return [
            _row(name, "claimed" if name in claims else "expanded", outcomes, spent)
            for name, outcomes in self.operations.items()
            for spent in (self.seconds.get(f"operation {name}", 0),)
        ]

    def _of(self, group: str) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.group == group)

    def _spelled(self, primitive: Primitive) -> str:
        from xlac_sdk.kernel_ir.verify import applies

        taken = [d for d in DType if applies(primitive, d)]
        native = [d for d in taken if self.target.spells(primitive, d)]
        return "native" if len(native) == len(taken) else "partly" if native else "expanded"

    def totals(self) -> dict[str, int]:
        """Outcomes by status, and the numbers of native, claimed and expanded primitives and
        operations.
        """
        rows = [*self.primitives(), *self.groups(), *self.ops()]
        spelled = [r.how for r in self.primitives()]
        return {
            "passed": sum(r.passed for r in rows),
            "failed": sum(r.failed for r in rows),
            "unsupported": sum(r.unsupported for r in rows),
            "left out for a type": sum(r.left_out for r in rows),
            "native primitives": spelled.count("native") + spelled.count("partly"),
            "expanded primitives": spelled.count("expanded"),
            "claimed operations": sum(r.how == "claimed" for r in self.ops()),
            "expanded operations": sum(r.how == "expanded" for r in self.ops()),
        }

    def text(self) -> str:
        """A plain summary, with details of failures."""
        lines = [
            f"{name:<12} {row.how:<9} {row.passed:>5} passed {row.failed:>4} failed "
            f"{row.seconds:>7.1f} s"
            for row in (*self.primitives(), *self.groups(), *self.ops())
            for name in (row.name,)
        ]
        lines += [f"FAILED {o.case}\n    {o.detail}" for o in self.failed]
        return "\n".join(
            [*lines, ", ".join(f"{count} {what}" for what, count in self.totals().items())]
        )

    def html(self) -> str:
        """A self-contained HTML page."""
        from jinja2 import Environment, PackageLoader, StrictUndefined

        env = Environment(
            loader=PackageLoader("xlac_sdk.conformance"),
            undefined=StrictUndefined,
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        sections = [
            ("Primitives", self.primitives()),
            ("Statements and steps", self.groups()),
            ("Operations", self.ops()),
        ]
        return env.get_template("report.html.j2").render(
            report=self, sections=[s for s in sections if s[1]]
        )


def _row(name: str, how: str, outcomes: tuple[Outcome, ...], seconds: float) -> Row:
    count = [o.status for o in outcomes].count
    rest = tuple(o for o in outcomes if o.status not in ("passed", "left out"))
    counts = (count("passed"), count("failed"), count("unsupported"), count("left out"))
    return Row(name, how, *counts, rest, seconds)
