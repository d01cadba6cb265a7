"""What two processes of torch.distributed check: `divided_modules.py RANK PORT FOLDER`, run by
test_torch_dtensors.py. Ends with an error if anything is wrong.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import xlac
from xlac.exporters.spec import write
from xlac.integrations.torch.fallback import FallbackWarning


class Layers(torch.nn.Module):
    """A layer and its inverse, as tensor parallelism divides them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def made() -> tuple[Layers, Layers, torch.Tensor]:
    """Two equal modules, and an input."""
    torch.manual_seed(0)
    one, other = Layers(), Layers()
    other.load_state_dict(one.state_dict())
    return one, other, torch.randn(4, 8)


def check_imported(folder: Path) -> None:
    """The model of a divided module is whole, and says how it is divided; the module is as it
    was.
    """
    module, reference, x = made()
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("model",))
    seen: list[str] = []
    module.up.register_forward_hook(lambda *_: seen.append("mine"))
    parallelize_module(module, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    hooks = [list(part._forward_hooks.items()) for part in module.modules()]
    function = xlac.from_torch(module, x)
    assert hooks == [list(part._forward_hooks.items()) for part in module.modules()]
    torch.testing.assert_close(function(x), reference(x))
    assert seen
    ranks = function.model.ranks
    assert ranks is not None and ranks.mesh == {"model": 2}
    axes = {name: said.axes for name, said in ranks.params.items()}
    assert axes["up.weight"] == (("model",), ()) and axes["down.weight"] == ((), ("model",))
    torch.testing.assert_close(module(x), reference(x))
    if dist.get_rank() == 0:
        write(function.model, folder / "layers.yaml")


def check_fully_sharded() -> None:
    """`fully_shard` is division of weights, too."""
    module, reference, x = made()
    fully_shard(module, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("data",)))
    function = xlac.from_torch(module, x)
    torch.testing.assert_close(function(x), reference(x))
    assert function.model.ranks is not None
    assert function.model.ranks.params["up.weight"].axes == (("data",), ())
    torch.testing.assert_close(module(x), reference(x))


def check_compiled() -> None:
    """Under torch.compile PyTorch's processes exchange values, and xlac computes, without a
    warning.
    """
    module, reference, x = made()
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("model",))
    parallelize_module(module, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        compiled = torch.compile(module, backend="xlac", options={"fallback": False})
        result, wanted = compiled(x), reference(x)
        torch.testing.assert_close(result, wanted)
        (result**2).sum().backward()
        (wanted**2).sum().backward()
    for name in ("up", "down"):
        gradient = getattr(module, name).weight.grad.full_tensor()
        torch.testing.assert_close(gradient, getattr(reference, name).weight.grad)


def check_refused() -> None:
    """A step with PyTorch's parameters does not take those of several processes."""
    module, _, _ = made()
    fully_shard(module, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("data",)))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    try:
        xlac.torch_step(module, torch.nn.functional.mse_loss, optimizer)
    except xlac.SourceError as error:
        assert "DTensors" in str(error) and "XL7311" in str(error)
    else:
        raise AssertionError("a step took DTensors")


def main() -> None:
    """All checks, on one of two ranks."""
    rank, port, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    check_imported(folder)
    check_fully_sharded()
    check_compiled()
    check_refused()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
