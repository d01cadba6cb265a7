"""The PyTorch importer makes exactly the operations that it declares: samples of operators that
together make all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's samples need it

from torch.fx.experimental.proxy_tensor import make_fx

from tests.pytorch import opinfo
from xlac.frontends.produced import produced
from xlac.frontends.torch.produced import PRODUCED
from xlac.integrations.torch.subgraph import Options, Subgraph
from xlac.ir.graph import Graph

SAMPLED = """
    nanquantile nn.functional.multi_head_attention_forward hypot logaddexp2 log_normal
    triu_indices nn.functional.local_response_norm gcd renorm copysign __getitem__
    polygamma.polygamma_n_2 nn.functional.conv_transpose1d put tan sgn erf atan cosh acos
    sinh triu erfc log2 tanh tril frac asin asinh acosh round atanh expm1 atan2 rsqrt erfinv
    cumsum lgamma cummin argmin argmax digamma sigmoid scatter cumprod nanmean __rxor__
    nextafter logsumexp special.i1 log_softmax grid_sampler_3d nn.functional.silu
    bitwise_left_shift nn.functional.mish nn.functional.gelu nn.functional.bilinear
    nn.functional.hardswish linalg.solve_triangular nn.functional.hardsigmoid
    nn.functional.pad.reflect max_pool2d_with_indices_backward
    linalg.cholesky linalg.eigh linalg.svd linalg.lu_factor linalg.lu_solve linalg.qr geqrf
    linalg.householder_product linalg.inv linalg.solve linalg.slogdet linalg.det
    take_along_dim lu_unpack special.zeta polygamma.polygamma_n_1
    fft.fft fft.ifft fft.rfft fft.irfft matrix_exp
    nn.functional.batch_norm nn.functional.group_norm
    """.split()


def encoder_layer(x: torch.Tensor) -> torch.Tensor:
    ones, size = torch.ones, x.shape[-1]
    qkv, out = (ones(3 * size, size), ones(3 * size)), (ones(size, size), ones(size))
    norms = [ones(size)] * 4
    return torch.ops.aten._transformer_encoder_layer_fwd(
        x, size, 2, *qkv, *out, False, False, 1e-5, *norms, *out, *out
    )


CALLED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "matmul": (torch.matmul, (torch.ones(2, 3), torch.ones(3, 4))),
    "isfinite": (torch.isfinite, (torch.ones(3),)),
    "embedding_dense_backward": (
        lambda grad, at: torch.ops.aten.embedding_dense_backward(grad, at, 5, -1, False),
        (torch.ones(3, 4), torch.ones(3, dtype=torch.int64)),
    ),
    "a complex solve from the right": (
        lambda a, b: torch.ops.aten._linalg_solve_ex(a, b, left=False)[0],
        (torch.eye(3, dtype=torch.complex64), torch.ones(2, 3, dtype=torch.complex64)),
    ),
    "eigenvectors": (torch.ops.aten.linalg_eig, (torch.eye(3),)),
    "an encoder layer": (encoder_layer, (torch.ones(2, 3, 8),)),
}
"""What PyTorch's samples have only in its decomposed form."""


def test_every_declared_operation_is_made_and_no_other(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all"):
        pytest.skip("with --all: tracing the samples takes a minute")
    made: set[str] = set()
    for graph in graphs():
        made |= produced(graph)
    assert sorted(made) == sorted(PRODUCED)


def graphs() -> Iterator[Graph]:
    """The graphs of a few samples of each operator and element type, and of the functions."""
    for name in SAMPLED:
        for dtype in opinfo.DTYPES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for case in opinfo.cases(name, dtype, 4 if dtype is torch.float32 else 1):
                    made = opinfo.imported(case)
                    if not made.unsupported:
                        yield graph_of(made)
    for name, (function, arguments) in CALLED.items():
        module = make_fx(function, pre_dispatch=True, tracing_mode="fake")(*arguments)
        whole = Subgraph(module, Options(target="cpu", fallback=False, threads=1))
        assert not whole.unsupported, name
        yield graph_of(whole)
    yield from with_open_size()


def with_open_size() -> Iterator[Graph]:
    """A value of a size that is open, which is read when the program runs; and a branch."""
    from xlac.frontends.torch.exported import imported

    for module in (SizeOf(), Branch()):
        exported = torch.export.export(
            module, (torch.ones(3),), dynamic_shapes=({0: torch.export.Dim("n")},)
        )
        yield imported(exported).model.graph


class Branch(torch.nn.Module):
    """A sine or a cosine."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class SizeOf(torch.nn.Module):
    """A vector times the number of its elements."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]


def graph_of(made: Subgraph) -> Graph:
    """What was imported, as one graph."""
    outputs, _ = made.results()
    return Graph("sample", tuple(made.params), outputs)
