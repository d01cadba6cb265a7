"""The conformance kit of backends: every primitive, statement and step, compared with the SDK's
interpreter.

    report = run(backend)  # or: python -m xlac_sdk.conformance NAME; or: xlac backend test NAME

The toolchain adds a case for every operation; see `Outcome` for what it passes.
"""

from xlac_sdk.conformance.case import ConformanceCase, Outcome, Tolerance
from xlac_sdk.conformance.report import ConformanceReport
from xlac_sdk.conformance.run import cases, check, run

Case, Report = ConformanceCase, ConformanceReport  # former names, which ports import

__all__ = [
    "Case", "ConformanceCase", "ConformanceReport", "Outcome", "Report", "Tolerance", "cases",
    "check", "run",
]  # fmt: skip
