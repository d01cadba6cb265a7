"""Modules whose parameters are DTensors: the whole model, and how its weights are divided among the
ranks of a mesh.

A module that `parallelize_module` or `fully_shard` divided computes what it computed before; hooks
of `torch.distributed` redistribute its values. The model has whole weights, and the section `mesh`
in place of the hooks: where values are exchanged is xlac's choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from xlac.model import MeshSection, SaidSharding
from xlac_sdk.source import Diagnostic, SourceError

HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)
"""The dictionaries in which a module keeps what runs before and after it."""


def divided(module: torch.nn.Module) -> bool:
    """Whether a parameter or buffer of a module is a DTensor."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor

    tensors = [*module.parameters(), *module.buffers()]
    return any(isinstance(one, DTensor) for one in tensors)


def section_of(module: torch.nn.Module) -> MeshSection:
    """The mesh of a module's DTensors, and how it divides them, by name. Raises SourceError
    where meshes do not go together, or something is divided in a way that xlac does not have.
    """
    from torch.distributed.tensor import DTensor

    mesh: dict[str, int | None] = {}
    said: dict[str, SaidSharding] = {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if not isinstance(tensor, DTensor):
            continue
        axes = _names(tensor.device_mesh)
        for axis, size in zip(axes, tensor.device_mesh.shape, strict=True):
            if mesh.setdefault(axis, size) != size:
                problem = f"'{name}' is on a mesh whose axis '{axis}' has {size} ranks, not "
                raise SourceError(Diagnostic("XL7313", problem + str(mesh[axis])))
        said[name] = SaidSharding(_axes(name, tensor, axes))
    return MeshSection(mesh, said)


def _names(mesh: Any) -> tuple[str, ...]:
    """The names of a mesh's axes; `ranks_0` … where it has none."""
    return tuple(mesh.mesh_dim_names or (f"ranks_{n}" for n in range(mesh.ndim)))


def _axes(name: str, tensor: Any, axes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The mesh axes that divide each axis of a DTensor, the one of the largest parts first. A
    strided shard divides the parts that all later axes of the mesh have made.
    """
    parts: list[list[str]] = [[] for _ in range(tensor.ndim)]
    strided: list[list[str]] = [[] for _ in range(tensor.ndim)]
    later = [1] * tensor.ndim  # into how many parts later axes divide each
    sizes = tensor.device_mesh.shape
    for axis, size, placement in reversed([*zip(axes, sizes, tensor.placements, strict=True)]):
        if placement.is_replicate():
            continue
        dim = getattr(placement, "dim", None)
        factor = getattr(placement, "split_factor", 1)
        if dim is None or factor not in (1, later[dim]):
            problem = f"'{name}' has the placement {placement}, which xlac does not have"
            raise SourceError(Diagnostic("XL7313", problem))
        if factor > 1:
            strided[dim].append(axis)
        else:
            parts[dim].insert(0, axis)
        later[dim] *= size
    return tuple((*a, *b) for a, b in zip(parts, strided, strict=True))


@contextmanager
def whole(module: torch.nn.Module) -> Iterator[None]:
    """The module with whole tensors for its DTensors, and without the hooks of torch.distributed.
    All ranks must come here, as they gather the tensors.
    """
    from torch.distributed.tensor import DTensor

    with ExitStack() as undo:
        for part in module.modules():
            for held in (part._parameters, part._buffers):
                for name, tensor in list(held.items()):
                    if isinstance(tensor, DTensor):
                        undo.callback(held.__setitem__, name, tensor)
                        full = tensor.full_tensor().detach()
                        held[name] = torch.nn.Parameter(full) if held is part._parameters else full
            for kind in HOOKS:
                hooks = getattr(part, kind)
                undo.callback(_restore, hooks, dict(hooks))
                for key in [k for k, hook in hooks.items() if _is_distributed(hook)]:
                    del hooks[key]
        yield


def _restore(hooks: dict[int, Any], before: dict[int, Any]) -> None:
    """The hooks as before, in their order."""
    hooks.clear()
    hooks.update(before)


def _is_distributed(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("torch.distributed.")
