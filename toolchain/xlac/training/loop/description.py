"""run.json: the options with which a run is resumed. Nothing in it is trusted: an unknown option, a
wrong type or a value out of bounds is an error with its place.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from xlac.spec.report import Place
from xlac.spec.schema.fields import shown
from xlac.spec.schema.messages import in_words
from xlac.spec.schema.strict import Strict
from xlac.spec.schema.training import MOST_PARTS
from xlac.spec.text.yaml import read
from xlac.training.data.column import fault
from xlac.training.loop.options import MOST
from xlac_sdk.source import Diagnostic, SourceError, Span

MAX_BYTES, MAX_TEXTS = 1 << 20, 10_000


def _plain(text: str) -> str:
    """Text of one line without control characters (such as NUL), as names and paths need."""
    if not text or any(ord(c) < 32 for c in text):
        raise PydanticCustomError("kind", "expected text of one line, without control characters")
    return text


def _absolute(text: str) -> str:
    """A data argument with an absolute path, as `xlac.training.data.files.absolute` makes it."""
    if not Path(re.sub(r"^[A-Za-z_]\w*=", "", text)).is_absolute():
        raise PydanticCustomError("kind", "expected an absolute path")
    return text


Line = Annotated[str, Field(max_length=4096), AfterValidator(_plain)]
Word = Annotated[str, Field(max_length=256, pattern=r"^[\w.+,:-]*$")]
Lines = Annotated[list[Line], Field(max_length=MAX_TEXTS)]
Paths = Annotated[list[Annotated[Line, AfterValidator(_absolute)]], Field(max_length=MAX_TEXTS)]
AtLeast0 = Annotated[int, Field(ge=0, le=MOST)]
AtLeast1 = Annotated[int, Field(ge=1, le=MOST)]


class RunDescription(Strict):
    """The schema of run.json: options of `xlac train` by name; those not given are absent."""

    spec: Annotated[Line, AfterValidator(_absolute)] = ""
    target: Word = "cpu"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    dim: Lines = []
    sets: Lines = []
    cpu: Word = ""
    triple: Word = ""
    arch: Word = ""
    precision: Literal["default", "fast"] | None = None
    checked: bool = False
    checks: Word | None = None
    max_memory: Word | None = None
    schedule: Annotated[Line, AfterValidator(_absolute)] | None = None
    data: Paths = []
    validate_on: Paths = Field(default=[], alias="validate")
    columns: Lines = []
    resize: bool | None = None
    accumulate: Annotated[int, Field(ge=1, le=MOST_PARTS)] | None = None
    epochs: AtLeast0 | None = None
    max_steps: AtLeast0 | None = None
    batch: AtLeast1 | None = None
    seed: AtLeast0 = 0
    drop_last: bool = False
    shuffle: bool = True
    patience: AtLeast1 | None = None
    best: Annotated[str, Field(max_length=4096)] = ""
    keep: AtLeast1 = 3
    checkpoint_every: AtLeast1 | None = None
    tensorboard: bool = False
    merge: bool = True
    identity: dict[str, Any] = {}


def described(file: Path) -> dict[str, Any]:
    """The options in a run.json; none where the file does not exist. Raises SourceError."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise fault("XL6339", f"{file} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise fault("XL6339", f"{file} has more than {MAX_BYTES:,} bytes")
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_no_number)
        return RunDescription.model_validate(document).model_dump(exclude_unset=True, by_alias=True)
    except json.JSONDecodeError as error:
        span = Span(file, error.lineno, error.colno)
        raise SourceError(Diagnostic("XL6339", f"this is not JSON: {error.msg}", span)) from None
    except ValidationError as error:
        raise SourceError(
            *(_diagnostic(file, one) for one in error.errors(include_url=False)[:20])
        ) from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise fault("XL6339", f"{file} cannot be read: {reason}") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _diagnostic(file: Path, wrong: Any) -> Diagnostic:
    """A pydantic error as a diagnostic at its line and column."""
    path = tuple(key for key in wrong["loc"])
    try:
        place = Place(read(file), path)
        span = place.key if wrong["type"] == "extra_forbidden" else place.span
    except SourceError:  # the position comes from a YAML parser; not all JSON is YAML
        span = Span(file, 1, 1)
    if wrong["type"] == "extra_forbidden":
        problem = f"a run has no option {shown(path[-1])[9:]}"
        return Diagnostic("XL6339", problem, span, "it may be of a newer xlac")
    name = next((key for key in reversed(path) if isinstance(key, str)), "run.json")
    return Diagnostic("XL6339", f"{name}: {in_words(wrong)}", span)
