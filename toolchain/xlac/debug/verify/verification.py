"""What a verification found, as text, JSON and JUnit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from xlac.debug.verify.deviation import Discrepancy


@dataclass(frozen=True, slots=True)
class VerifiedValue:
    """One comparison: an output of the program, or of one of its groups, for one draw of inputs.

    `against` is what it was compared with: "reference" (the meaning in float64), another engine,
    or for a group "its inputs" (what its nodes mean for what it read). `place` says which lines of
    the model compute it. `judged` says whether the verdict depends on it.
    """

    draw: str
    name: str
    against: str
    deviation: Discrepancy
    place: str = ""
    judged: bool = True
    inherited: float | None = None  # of a group: how far it is from the exact value of the model

    @property
    def right(self) -> bool:
        """Whether it is within its bound, or not judged."""
        return self.deviation.right or not self.judged

    def json(self) -> dict[str, Any]:
        """The same for JSON."""
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
    """All that was compared, what is at fault, and remarks. `right` is the verdict."""

    model: str
    target: str
    values: tuple[VerifiedValue, ...]
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether every judged value is within its bound and nothing else is at fault."""
        return not self.causes and all(v.right for v in self.values)

    @property
    def first_wrong(self) -> VerifiedValue | None:
        """The first value beyond its bound: a group's before an output's."""
        wrong = [v for v in self.values if not v.right]
        return next((v for v in wrong if v.against == "its inputs"), next(iter(wrong), None))

    def json(self) -> dict[str, Any]:
        """The whole for JSON."""
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
        """The whole as a JUnit test suite: a test case for each value."""
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
        """For a terminal: outputs, the groups that are wrong (all of them with `every`), causes."""
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
    """Text without what XML cannot hold."""
    return "".join(c if c in "\t\n" or ord(c) >= 32 else "?" for c in text)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _text(text: str) -> str:
    return escape(_clean(text))
