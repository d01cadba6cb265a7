"""Random numbers that `torch.utils.checkpoint` draws a second time, in the backward pass.

PyTorch saves the state of its generator and hands it on as a tensor of bytes. Here these bytes hold
the state of our stream instead, where the state of its Mersenne Twister begins, after zeros: so
PyTorch rejects them as no state of its own, and `is_ours` tells them from one of PyTorch's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.utils import _pytree as pytree

from xlac.frontends.torch.fx_nodes import inputs_of, name_of
from xlac.frontends.torch.random import Randomness
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

SAVED, AGAIN = "run_and_save_rng_state", "run_with_rng_state"
START, MARK = 24, 0x786C61632D726E67  # of our bytes; what they begin with
WORDS = 4  # the mark, a key and a counter, of 8 bytes each


def annotate(module: GraphModule) -> None:
    """States the results of operations that draw for a checkpoint, which PyTorch leaves out."""
    stated: set[FxNode] = set()
    for node in module.graph.nodes:
        if node.target is operator.getitem and node.args[0] in stated:
            node.meta["val"] = node.args[0].meta["val"][node.args[1]]
            stated.add(node)
        name = name_of(node)
        if name not in (SAVED, AGAIN) or "val" in node.meta:
            continue
        own, *rest = node.args if name == SAVED else node.args[1:]
        args, named = pytree.tree_map(_example, (rest, dict(node.kwargs)))
        mode = detect_fake_mode(pytree.tree_leaves((args, named)))
        assert mode is not None
        with mode, torch.no_grad():
            drawn, state = own(*args, **named), torch.empty(_bytes(), dtype=torch.uint8)
        node.meta["val"] = (state, drawn) if name == SAVED else drawn
        if name == AGAIN and node.args[0].op == "placeholder":
            node.args[0].meta["val"] = state  # of a size that is known
        stated.add(node)


def _bytes() -> int:
    size: int = torch.get_rng_state().numel()
    return size


def _example(value: Any) -> Any:
    return value.meta["val"] if isinstance(value, FxNode) else value


def states(module: GraphModule) -> list[int]:
    """The arguments that are states of a checkpoint, by position."""
    read = {node.args[0] for node in module.graph.nodes if name_of(node) == AGAIN}
    return [n for n, place in enumerate(inputs_of(module.graph)) if place in read]


def is_ours(state: torch.Tensor) -> bool:
    """Whether bytes are those of `saved`."""
    begin: bytes = state[START : START + 8].numpy().tobytes()
    return begin == MARK.to_bytes(8, "little")


def saved(stream: Node, size: int) -> Node:
    """The state of a stream, u64[3], as bytes."""
    words = build.concat([build.constant([MARK], DType.U64), stream], 0)
    own = build.reshape(build.apply1("bitcast", words, dtype=DType.U8), (8 * WORDS,))
    return build.pad(own, 0, [START], [size - START - 8 * WORDS])


def restored(state: Node) -> Node:
    """The state of the stream that bytes are."""
    own = build.cut(state, 0, START, START + 8 * WORDS)
    words = build.apply1("bitcast", build.reshape(own, (WORDS, 8)), dtype=DType.U64)
    return build.cut(build.reshape(words, (WORDS,)), 0, 1, WORDS)


def built(node: FxNode, args: list[Any], random: Randomness, build_own: Callable[..., Any]) -> Any:
    """What an operation of a checkpoint draws, with the state before it; or draws again, from that
    state. `build_own` builds the operation itself.
    """
    meta, again = node.meta["val"], name_of(node) == AGAIN
    own, rest = (args[1], args[2:]) if again else (args[0], args[1:])
    stated = meta if again else meta[1]
    used = frozenset(range(len(stated) if isinstance(stated, tuple | list) else 1))
    if again:
        with random.begun_at(restored(args[0])):
            return build_own(node, str(own), rest, meta=stated, used=used)
    before = saved(random.state(), meta[0].numel())
    return [before, build_own(node, str(own), rest, meta=stated, used=used)]
