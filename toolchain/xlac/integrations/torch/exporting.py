"""Exports modules by torch.export, and reports its failures as one error, without PyTorch's logs,
warnings and tracebacks.
"""

from __future__ import annotations

import inspect
import io
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from xlac_sdk.source import Diagnostic, SourceError, Span, XlacError


def exported(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    dynamic_shapes: Any,
    strict: bool,
    named: dict[str, Any] | None = None,
) -> Any:
    """A program of torch.export. Raises SourceError, at the line of Python where it fails."""
    printed = io.StringIO()

    def export() -> Any:
        return torch.export.export(
            module, args, named, dynamic_shapes=dynamic_shapes, strict=strict
        )

    try:
        # on failure, PyTorch prints its graph to stderr
        with quiet(), redirect_stderr(printed):
            try:
                program = export()
                transforms = dynamic_shapes is None and _holds_transforms(program)
            except Exception as error:
                if dynamic_shapes is not None or not _in_transforms(error):
                    raise
                transforms = True
            if transforms:
                with _transformed(module, args, named or {}):
                    program = export()
        sys.stderr.write(printed.getvalue())
        return program
    except XlacError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        problem = (
            f"PyTorch cannot export {type(module).__name__}: "
            f"{lines[0] if lines else type(error).__name__}"
        )
        hint = (
            "what depends on the values of tensors needs torch.where or torch.cond"
            if "data-dependent" in problem
            else ""
        )
        raise SourceError(Diagnostic("XL7310", problem, _place(error), hint)) from None


def _holds_transforms(program: Any) -> bool:
    """Whether a program has calls of what torch.func's transforms consist of. They are no
    operations, and PyTorch 2.13 exports what they enclose with constants for its inputs.
    """
    graphs = (m.graph for m in program.graph_module.modules() if isinstance(m, GraphModule))
    return any(
        getattr(node.target, "__module__", "") == "torch._functorch.predispatch"
        for graph in graphs
        for node in graph.nodes
    )


def _in_transforms(error: BaseException) -> bool:
    """Whether a traceback passes through torch.func's transforms."""
    frames = traceback.extract_tb(error.__traceback__)
    own = tuple(
        f"/torch/_functorch/{name}.py" for name in ("eager_transforms", "predispatch", "vmap")
    )
    return any(frame.filename.endswith(own) for frame in frames)


@contextmanager
def _transformed(
    module: torch.nn.Module, args: tuple[Any, ...], named: dict[str, Any]
) -> Iterator[None]:
    """The module with its forward traced for these arguments, so that torch.func's transforms in it
    are carried out. Its parameters and buffers are inputs of the trace.
    """
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def called(state: dict[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return torch.func.functional_call(module, state, args, named)

    trace = make_fx(called, tracing_mode="fake")(own, args, named)

    def forward(*args: Any, **named: Any) -> Any:
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return trace(state, args, named)

    before = module.forward
    forward.__signature__ = inspect.signature(before)  # type: ignore[attr-defined]
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if module.forward != before:
            module.forward = before


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses PyTorch's deprecation warnings, and errors that it logs before it raises them."""
    handlers = list(logging.getLogger("torch").handlers)
    for handler in handlers:
        handler.addFilter(_below_warning)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            # torch.nn's recurrent layers cause this warning themselves
            warnings.filterwarnings("ignore", message=".*were assigned during export")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(_below_warning)


def _below_warning(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING


def _place(error: BaseException) -> Span | None:
    """The innermost line of a traceback that is in neither PyTorch nor xlac."""
    own = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<")
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if not f.filename.startswith(own) and f.lineno
    ]
    if not frames:
        return None
    frame = frames[-1]
    text = frame.line or ""
    return Span(
        Path(frame.filename), frame.lineno or 1, (frame.colno or 0) + 1, max(1, len(text.strip()))
    )
