"""The results of a verification, as text, JSON and JUnit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from xlac.debug.verify.deviation import Discrepancy


@dataclass(frozen=True, slots=True)
class VerifiedValue:
    """One comparison: an output of the program, or of one of its groups, for one set of inputs.

    `against` is the reference: "reference" (exact results in float64), another engine, or for a
    group "its inputs" (exact results for the values that it read). `place` says which lines of the
    model compute it. `judged` says whether the verdict depends on it.
    """

    draw: str
    name: str
    against: str
    deviation: Discrepancy
    place: str = ""
    judged: bool = True
    # of a group: the difference from the exact value of the whole model
    inherited: float | None = None

    @property
    def right(self) -> bool:
        """Whether it is within its bound, or not judged."""
        return self.deviation.right or not self.judged

    def json(self) -> dict[str, Any]:
        """The comparison for JSON."""
        inherited = {} if self.inherited is None else {"from_exact": str(self.inherited)}
        return {
            "inputs": self.draw,
            "name": self.name,
            "against": self.against,
            "lines": self.place,
            "verdict": "right" if self.right else "wrong",
            **inherited,
            **self.deviation.json(),
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """All comparisons, the causes of faults, and notes. `right` is the verdict."""

    model: str
    target: str
    values: tuple[VerifiedValue, ...]
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether every judged value is within its bound and no other fault was found."""
        return not self.causes and all(v.right for v in self.values)

    @property
    def first_wrong(self) -> VerifiedValue | None:
        """The first value beyond its bound, groups before outputs."""
        wrong = [v for v in self.values if not v.right]
        return next((v for v in wrong if v.against == "its inputs"), next(iter(wrong), None))

    def json(self) -> dict[str, Any]:
        """The verification for JSON."""
        return {
            "model": self.model,
            "target": self.target,
            "verdict": "right" if self.right else "wrong",
            "seconds": round(self.seconds, 3),
            "causes": list(self.causes),
            "notes": list(self.notes),
            "values": [v.json() for v in self.values],
        }

    def junit(self) -> str:
        """A JUnit test suite with a test case for each value."""
        wrong = [v for v in self.values if not v.right]
        extra = self.causes if not wrong else ()
        counts = (
            f'tests="{len(self.values) + len(extra)}" failures="{len(wrong) + len(extra)}" '
            f'errors="0" time="{self.seconds:.3f}"'
        )
        lines = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuite name={_attribute(f'xlac verify {self.model}')} {counts}>",
        ]
        for value in self.values:
            title = f"{value.draw}: {value.name} against {value.against}"
            case = f"classname={_attribute(f'{self.model}.{self.target}')} name={_attribute(title)}"
            if value.right:
                lines.append(f"  <testcase {case}/>")
                continue
            said = "\n".join((str(value.deviation), value.place, *self.causes))
            lines.append(
                f"  <testcase {case}><failure message={_attribute(str(value.deviation))}>"
                f"{_text(said)}</failure></testcase>"
            )
        for cause in extra:
            lines.append(
                f'  <testcase classname="{self.target}" name="program">'
                f"<failure message={_attribute(cause)}/></testcase>"
            )
        return "\n".join((*lines, "</testsuite>", ""))

    def text(self, every: bool = False) -> str:
        """Text for a terminal: outputs, the groups that are wrong (all of them with `every`),
        causes.
        """
        lines = []
        for value in self.values:
            node = value.against == "its inputs"
            if node and value.right and not every:
                continue
            mark = "✓" if value.deviation.right else ("✗" if value.judged else "!")
            place = f"  {value.place}" if value.place else ""
            kind = "" if node else " (estimated)"
            lines.append(
                f"{mark} {value.draw}: {value.name} against {value.against}: "
                f"{value.deviation}{kind}{place}"
            )
        nodes = [v for v in self.values if v.against == "its inputs"]
        if nodes:
            fine = sum(v.right for v in nodes)
            lines.append(f"{fine} of {len(nodes)} values of groups within their promised bounds")
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"cause: {cause}" for cause in self.causes]
        verdict = "right" if self.right else "WRONG"
        lines.append(f"{self.model} on {self.target}: {verdict} ({self.seconds:.1f} s)")
        return "\n".join(lines)


def _clean(text: str) -> str:
    """Text without the characters that XML does not permit."""
    return "".join(c if c in "\t\n" or ord(c) >= 32 else "?" for c in text)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _text(text: str) -> str:
    return escape(_clean(text))
