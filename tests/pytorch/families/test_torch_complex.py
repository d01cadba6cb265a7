"""Complex numbers and Fourier transforms of PyTorch: values and gradients beside eager mode's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xlac
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")

fft = torch.fft
OPTIONS = {"fallback": False}


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic
    torch.manual_seed(0)


def real(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


def numbers(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.complex128)


def agree(function: Callable[..., Any], *values: Any) -> None:
    """Values, memory order and gradients of a compiled function beside eager's."""
    compiled = torch.compile(function, backend="xlac", options=OPTIONS)
    results = []
    for called in (compiled, function):
        leaves = [value.detach().clone().requires_grad_() for value in values]
        result = called(*leaves)
        results.append((result, *torch.autograd.grad(result.abs().square().sum(), leaves)))
    for number, (ours, theirs) in enumerate(zip(*results, strict=True)):
        same = {"rtol": 1e-10, "atol": 1e-10, "check_stride": number == 0}
        torch.testing.assert_close(ours, theirs, **same)


def turned(x: Any) -> Any:
    """Rotary embedding by complex numbers."""
    steps = torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.1])).to(x.dtype)
    turns = torch.polar(torch.ones_like(steps), steps)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


REAL: dict[str, Callable[[Any], Any]] = {
    "rotary": turned,
    "rfft": fft.rfft,
    "rfft2": lambda x: fft.rfft2(x, norm="ortho"),
    "filter": lambda x: fft.irfft(fft.rfft(x) * (1 - 2j), n=4, norm="forward"),
    "fft of real": lambda x: fft.fft(x, dim=0).abs(),
    "complex": lambda x: torch.complex(x, x.cos()).sqrt(),
    "exponential": lambda x: torch.exp(1j * x).real,
    "stft": lambda x: torch.stft(
        x, 4, hop_length=2, window=torch.hann_window(4).double(), return_complex=True
    ),
}
COMPLEX: dict[str, Callable[[Any], Any]] = {
    "windows": lambda z: z.unfold(1, 2, 1) * torch.as_strided(z, (3, 3, 2), (4, 1, 1)),
    "running product": lambda z: z.cumprod(1)[:, :3] + torch.linalg.vander(z[:, 0]),
    "logsumexp": lambda z: z.logsumexp(0) + torch.logaddexp(z[0], z[1]),
    "lerp": lambda z: torch.lerp(z, z.flip(0), 0.25) + torch.lerp(z, z.cos(), 0.75j),
    "ifftn": fft.ifftn,
    "hfft": fft.hfft,
    "irfft2": fft.irfft2,
    "quotient": lambda z: z / (z + 2) + z.reciprocal(),
    "power": lambda z: z**3 + z**0.5,
    "adjoint product": lambda z: z @ z.mH,
    "einsum": lambda z: torch.einsum("ij,kj->ik", z, z.conj()),
    "parts": lambda z: z.real * z.imag + z.angle(),
    "norm": lambda z: z / torch.linalg.vector_norm(z),
    "placed": lambda z: torch.cat([z, z.flip(0)])[:, ::2].index_fill(0, torch.tensor([1]), 2j),
    "where": lambda z: torch.where(z.real > 0, z, 1j).sum(0).cumsum(0),
}


@pytest.mark.parametrize("name", REAL)
def test_functions_of_real_numbers(name: str) -> None:
    agree(REAL[name], real(3, 4))


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers(name: str) -> None:
    agree(COMPLEX[name], numbers(3, 4))


def test_real_factors_make_no_nan_of_infinities() -> None:
    """(inf + i) 2 is inf + 2i, as in C; eager PyTorch multiplies by 2 + 0i."""
    x = torch.tensor([complex(torch.inf, 1.0), complex(0.0, -2.0)])
    compiled = torch.compile(lambda x: (x / 2.0, x * 2.0), backend="xlac", options=OPTIONS)
    half, twice = compiled(x)
    assert half.tolist() == [complex(torch.inf, 0.5), complex(0.0, -1.0)]
    assert twice.tolist() == [complex(torch.inf, 2.0), complex(0.0, -4.0)]


def test_arguments_in_any_order_of_memory() -> None:
    """Transposed, with gaps, conjugated by a mark, and dense."""
    compiled = torch.compile(lambda z: z * 2j, backend="xlac", options=OPTIONS)
    x = numbers(4, 4)
    for given in (x, x.T, x[:, ::2].contiguous().T, x[::2], x.conj(), x.mH):
        torch.testing.assert_close(compiled(given), given * 2j)


def test_random_numbers() -> None:
    """Both parts of each distribution, independent of each other."""

    def function(x: Any) -> Any:
        z = torch.zeros_like(x).normal_(2.0, 3.0)
        return torch.randn_like(x), torch.rand_like(x), torch.zeros_like(x).uniform_(1, 3), z

    for drawn, mean, variance in zip(
        torch.compile(function, backend="xlac", options=OPTIONS)(numbers(4000)),
        (0, 0.5 + 0.5j, 2 + 2j, 2),
        (0.5, 1 / 12, 1 / 3, 4.5),
        strict=True,
    ):
        parts = torch.view_as_real(drawn - mean)
        assert parts.mean(0).abs().max() < 0.2
        expected = torch.eye(2, dtype=torch.float64) * variance
        torch.testing.assert_close(torch.cov(parts.T), expected, rtol=0.1, atol=variance / 10)


def test_open_sizes() -> None:
    def function(z: Any) -> Any:
        return (z * z.conj()).real.sum(-1) + z.shape[0]

    compiled = torch.compile(function, backend="xlac", options=OPTIONS, dynamic=True)
    for size in (3, 5):
        z = numbers(size, 4)
        torch.testing.assert_close(compiled(z), function(z))


class Filter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(3, 2))
        self.register_buffer("state", numbers(2) * 0)

    def forward(self, z: Any) -> Any:
        self.state += 1j
        return z @ self.weight + self.state


def test_an_exported_module_with_complex_parameters_and_buffers() -> None:
    module, z = Filter(), numbers(4, 3)
    function = xlac.from_torch(module, z)
    assert "state: complex128[2]) -> output_0: complex128[4, 2]" in repr(function)
    for _ in range(2):
        torch.testing.assert_close(function(z), module(z).detach())
    torch.testing.assert_close(function.buffers["state"], module.state)


@pytest.mark.parametrize(
    ("given", "told"),
    [(real(4, 3), "must be complex128, not float64"), (numbers(4, 2), "must have shape 4x3")],
)
def test_other_arguments_are_refused(given: Any, told: str) -> None:
    function = xlac.from_torch(Filter(), numbers(4, 3))
    with pytest.raises(SourceError, match=told):
        function(given)


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(3, 2))

    def forward(self, z: Any) -> Any:
        return (z @ self.weight).abs().sum()


def test_a_file_takes_pairs(tmp_path: Path) -> None:
    module, z = Product(), numbers(4, 3)
    torch.export.save(torch.export.export(module, (z,)), tmp_path / "product.pt2")
    model = xlac.compile(tmp_path / "product.pt2")
    assert float(model(torch.view_as_real(z).numpy())) == pytest.approx(float(module(z)))


def test_a_step_refuses_complex_parameters() -> None:
    module = Product()
    step = xlac.torch_step(module, None, torch.optim.SGD(module.parameters(), 0.1))
    with pytest.raises(SourceError, match=r"complex numbers, as 'args_0', 'weight'.*XL7311"):
        step(numbers(4, 3))


class Spectrum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3).double()

    def forward(self, x: Any) -> Any:
        return fft.fft(self.layer(x)).abs().square().sum()


def test_a_step_by_way_of_complex_numbers() -> None:
    """The loss of a step is differentiated by xlac, not by PyTorch."""
    ours, theirs, x = Spectrum(), Spectrum(), real(2, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizer = torch.optim.SGD(theirs.parameters(), 0.01)
    loss = theirs(x)
    loss.backward()
    optimizer.step()
    step = xlac.torch_step(ours, None, torch.optim.SGD(ours.parameters(), 0.01))
    torch.testing.assert_close(step(x), loss.detach())
    torch.testing.assert_close(ours.layer.weight, theirs.layer.weight)


def test_what_is_missing_falls_back() -> None:
    """Running sums of complex logarithms run in PyTorch, what surrounds them does not."""

    def function(z: Any) -> Any:
        return torch.logcumsumexp(z @ z, 0) * 2j

    z = numbers(3, 3)
    with pytest.warns(UserWarning, match="no counterpart of it for complex numbers"):
        torch.testing.assert_close(torch.compile(function, backend="xlac")(z), function(z))
