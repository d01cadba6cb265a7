"""The kit that tests a backend: every primitive, statement and step, against the SDK's interpreter.

    report = run(backend)            # or: python -m xlac_sdk.conformance NAME, or: xlac backend
    test NAME

The toolchain adds a case for every operation; see `Outcome` for what it hands in.
"""

from xlac_sdk.conformance.case import Case, Outcome, Tolerance
from xlac_sdk.conformance.report import Report
from xlac_sdk.conformance.run import cases, check, run

__all__ = ["Case", "Outcome", "Report", "Tolerance", "cases", "check", "run"]
