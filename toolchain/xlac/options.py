"""What a compilation may be asked, as one value: every door takes these, and the cache tells
compilations apart by them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from xlac.settings import settings
from xlac.support.dependencies import content
from xlac.support.failures import Asked, kinds
from xlac.support.measured_facts import Facts, kept
from xlac_sdk.target import Request


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of `xlac.compile`, whose docstring says what each does."""

    dims: Mapping[str, int | str] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    sizes: Literal["specialize", "symbolic"] = "specialize"
    variants: Sequence[Mapping[str, int]] = ()
    threads: int | None = None
    cpu: str = ""
    triple: str = ""
    arch: str = ""
    precision: str = ""
    max_compile_seconds: float | None = None
    max_compile_memory: int | None = None
    checked: Asked = None
    copy_weights: bool = False
    schedules: str | os.PathLike[str] | Mapping[str, Any] | None = None
    passes: str = ""  # a pipeline as text; empty: the default one
    verify_each: bool = False
    max_memory: int | str | None = None  # of a call: bytes, or text as `512M`
    allow_kernels: bool | None = None  # hand-written ones; None: to need one is an error
    # facts of the machine that replace its processor's; None: what was measured of this one, where
    # it is the one compiled for
    facts: Facts | None = None

    @property
    def request(self) -> Request:
        """What is asked of the target. Raises SourceError for a number of threads there cannot
        be.
        """
        threads = self.threads or settings().threads
        facts = self.facts
        if facts is None:
            facts = () if self.cpu or self.triple or self.arch else kept()
        return Request(self.cpu, self.triple, arch=self.arch, threads=threads, facts=facts)

    @property
    def checks(self) -> tuple[str, ...]:
        """The kinds of checks that are asked for. Raises SourceError for one that there is not."""
        return kinds(self.checked)

    def to_json(self) -> dict[str, Any]:
        """What of these decides what is compiled, as JSON has it: part of the name in the cache.
        Raises OSError for a file of schedules that cannot be read.
        """
        given = self.schedules
        return {
            "dims": dict(self.dims),
            "params": dict(self.params),
            "sizes": self.sizes,
            "precision": self.precision,
            "checked": list(self.checks),
            "variants": [dict(one) for one in self.variants],
            "passes": self.passes,
            "max_memory": self.max_memory,
            "allow_kernels": self.allow_kernels,
            "schedules": content(given) if isinstance(given, str | os.PathLike) else given,
        }
