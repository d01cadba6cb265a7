"""`torch.compile(model, backend="xlac")`: PyTorch calls `backend` with each captured graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from xlac.frontends.torch.decompositions import decompositions
from xlac.integrations.torch.fallback import compiled, frozen
from xlac.integrations.torch.subgraph import Options
from xlac.model import PRECISIONS
from xlac.options import tuning_seconds
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import chosen, unknown_word
from xlac_sdk.support.limits import valid

MODES: Mapping[str, Mapping[str, Any]] = {"default": {}, "max-autotune": {"tune": True}}
"""The options that each `mode` of torch.compile stands for."""

_numbers = itertools.count()


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a captured graph to a function of its inputs. The backward pass, if one is needed,
    is compiled at its first call. A `mode` of MODES stands for some options; the others of
    torch.compile are inductor's. Raises SourceError for unknown options and modes.
    """
    if mode is not None and mode not in MODES:
        raise unknown_word(f"the xlac backend has no mode '{mode}'", mode, list(MODES), "XL7307")
    whole = {**MODES.get(mode or "default", {}), **(options or {})}
    chosen = replace(options_of(whole), name=f"graph_{next(_numbers)}")

    def inference(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return frozen(graph, chosen, _static()) if chosen.freeze else compiled(graph, chosen)

    def forward(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if chosen.freeze:
            problem = "freeze makes parameters constants, and gradients of them are asked for"
            hint = "call the model under torch.no_grad(), or leave freeze out"
            raise SourceError(Diagnostic("XL7307", problem, hint=hint))
        return compiled(graph, replace(chosen, visible=_user_results()))

    def backward(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compiled(graph, replace(chosen, name=f"{chosen.name}_backward", visible=frozenset()))

    build = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    with torch._functorch.config.patch(unlift_effect_tokens=True):  # else tokens are arguments
        built: Callable[..., Any] = build(module, example_inputs)
    return built


def _static() -> list[int]:
    """The positions of the arguments that are parameters and buffers, and not changed by the graph
    being compiled.
    """
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return []
    changed = set(metadata.mutated_inp_runtime_indices)
    return [n for n in metadata.static_input_indices if n not in changed]


def _user_results() -> frozenset[int]:
    """The numbers of those results of the forward graph being compiled that the user gets; the
    others are residuals for the backward pass.
    """
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return frozenset(range(0 if metadata is None else metadata.num_forward_returns))


def options_of(given: Mapping[str, Any] | None) -> Options:
    """The `options` of `torch.compile`. `threads` is PyTorch's number unless given. Raises
    SourceError for unknown names and values, LimitError for a limit that is not positive.
    """
    known = {f.name for f in fields(Options)} - {"name", "visible", "frozen"}
    unknown = sorted(set(given or {}) - known)
    if unknown:
        problem = f"the xlac backend has no option '{unknown[0]}'"
        raise unknown_word(problem, unknown[0], sorted(known), "XL7307")
    options = Options(**(given or {}))
    chosen("precision", options.precision, PRECISIONS)
    valid(options.max_compile_seconds, options.max_compile_memory)
    threads = torch.get_num_threads() if options.threads is None else options.threads
    return replace(options, threads=threads, tune=tuning_seconds(options.tune))
