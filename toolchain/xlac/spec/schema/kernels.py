"""The schema of hand-written kernels."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from xlac.spec.schema.fields import Text
from xlac.spec.schema.strict import Strict
from xlac_sdk.languages import LANGUAGES

SUFFIXES = ", ".join(f".{suffix} {language.name}" for suffix, language in LANGUAGES.items())


class KernelSpec(Strict):
    """A hand-written kernel for one target."""

    file: Text = Field(description=f"its file; {SUFFIXES}")
    function: Text | None = Field(
        default=None, description="what the file calls it; else the operation's name"
    )
    scratch: int | Text = Field(
        default=0, description="bytes of memory that a call needs: a number or ${…} over sizes"
    )
    split: Text | None = Field(
        default=None,
        description="the size that a call may be given a range of, so that threads share the work",
    )
    blocks: int | Text = Field(default=1, description="on a GPU: blocks of a launch")
    threads: int | Text = Field(default=1, description="on a GPU: threads of each block")
    shared: int | Text = Field(default=0, description="on a GPU: bytes of memory of each block")


KernelLike = Annotated[
    Annotated[Text, Tag("<text>")] | Annotated[KernelSpec, Tag("<kernel>")],
    Discriminator(lambda value: "<kernel>" if isinstance(value, dict | KernelSpec) else "<text>"),
]


class KernelTolerance(Strict):
    """The tolerance of a kernel's results: `absolute + relative * |reference|`."""

    relative: float = 0.0
    absolute: float = 0.0
    finite: bool = Field(default=False, description="NaN and infinity are not compared")


ToleranceLike = Annotated[
    Annotated[float, Tag("<number>")] | Annotated[KernelTolerance, Tag("<tolerance>")],
    Discriminator(
        lambda value: "<tolerance>" if isinstance(value, dict | KernelTolerance) else "<number>"
    ),
]
