"""The kit that tests a backend: every primitive, statement and step, against the SDK's interpreter.

    report = run(backend)            # or: python -m xlac_sdk.conformance NAME, or: xlac backend
    test NAME

The toolchain adds a case for every operation; see `Outcome` for what it hands in.
"""

from xlac_sdk.conformance.case import ConformanceCase, Outcome, Tolerance
from xlac_sdk.conformance.report import ConformanceReport
from xlac_sdk.conformance.run import cases, check, run

Case, Report = ConformanceCase, ConformanceReport  # the names that they had; ports import them

__all__ = [
    "Case", "ConformanceCase", "ConformanceReport", "Outcome", "Report", "Tolerance", "cases", "check", "run",
]  # fmt: skip
