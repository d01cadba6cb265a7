"""`torch.compile(model, backend="xlac")`: inference, training, sizes that change, and what falls
back.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xlac import driver
from xlac.frontends.torch.table import BUILDERS
from xlac.integrations.torch.fallback import FallbackWarning

OPTIONS = {"threads": 1, "fallback": False}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3), torch.nn.LogSoftmax(-1)
    )


def test_inference_agrees_with_eager() -> None:
    model, x = mlp(), torch.randn(5, 6)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(model, backend="xlac", options=OPTIONS)(x), model(x)
        )


def test_gradients_agree_with_eager_for_sizes_that_change() -> None:
    model = mlp()
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="xlac", options=OPTIONS)
    for batch in (5, 7, 2, 7):
        x = torch.randn(batch, 6, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        compiled(x).square().sum().backward()
        twin(y).square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_what_xlac_lacks_stays_with_pytorch_and_says_so() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nanmedian(x * 2) + 1

    x = torch.randn(4, 4)
    with pytest.warns(FallbackWarning, match=r"aten\.nanmedian") as told:
        torch.testing.assert_close(torch.compile(f, backend="xlac")(x), f(x))
    assert "torch.nanmedian(x * 2) + 1" in str(told[0].message)


def test_parts_between_what_is_missing_serve_many_sizes() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.nn.functional.gelu(x @ y)
        values = torch.special.bessel_j0(a)
        b = values.sum() * a + values.mean()
        return b, torch.nanmedian(b @ b.T) + x.shape[0], a.T

    compiled = torch.compile(f, backend="xlac", dynamic=True)
    for size in (3, 5, 8):
        x, y = torch.randn(size, 4), torch.randn(4, size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)
            found = compiled(x, y)
        for ours, theirs in zip(found, f(x, y), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_sizes_that_windows_need_as_numbers() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, at = torch.nn.functional.max_pool1d(x, 3, 2, return_indices=True)
        return (
            y,
            at,
            torch.nn.functional.interpolate(x, scale_factor=2, mode="linear"),
            x * x.shape[-1],
        )

    compiled = torch.compile(f, backend="xlac", options=OPTIONS, dynamic=True)
    for size in (9, 12, 7, 9):
        x = torch.randn(2, 3, size)
        for ours, theirs in zip(compiled(x), f(x), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_an_input_in_another_order_than_the_example() -> None:
    compiled = torch.compile(lambda x: x.sum(-1) + 1, backend="xlac", options=OPTIONS)
    for x in (
        torch.randn(4, 6),
        torch.randn(6, 4).T,
        torch.randn(4, 12)[:, ::2],
        torch.randn(1, 6).expand(4, 6),
    ):
        torch.testing.assert_close(compiled(x), x.sum(-1) + 1)


def test_other_devices_are_left_to_pytorch() -> None:
    x = torch.randn(3, device="meta")
    with pytest.warns(FallbackWarning, match="device meta"):
        assert torch.compile(lambda v: v * 2, backend="xlac")(x).device.type == "meta"


def test_a_target_that_cannot_is_left_for_pytorch() -> None:
    """What fails after the import, here for want of a backend, is told as well."""
    x = torch.randn(3)
    with pytest.warns(FallbackWarning, match="nowhere"):
        found = torch.compile(lambda v: v * 2, backend="xlac", options={"target": "nowhere"})(x)
    torch.testing.assert_close(found, x * 2)


def test_a_bug_in_a_builder_is_told_and_the_rest_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(BUILDERS, "aten.sin.default", wrong)
    x = torch.randn(3)
    with pytest.warns(
        FallbackWarning, match=r"aten\.sin\.default .*please report it: ZeroDivisionError: planted"
    ):
        torch.testing.assert_close(
            torch.compile(lambda v: v.sin() * 2, backend="xlac")(x), x.sin() * 2
        )


@pytest.mark.parametrize("target", ["cpu", "nowhere"])
def test_parts_of_one_result_that_pytorch_computes_itself(target: str) -> None:
    """A part that is only a view, and parts that cannot be compiled: their one result is not taken
    for several.
    """
    x = torch.randn(4, 3)
    for f in (lambda x: torch.nanmedian(x[1:]), lambda x: torch.nanmedian(x * 2) + 1):
        torch._dynamo.reset()
        with pytest.warns(FallbackWarning, match="nanmedian"):
            found = torch.compile(f, backend="xlac", options={"target": target})(x)
        torch.testing.assert_close(found, f(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: torch.zeros(n) + x.sum(),
        lambda x, n: x[:n] * 2,
        lambda x, n: ((x * 2).sum().expand(n) + 1, n + 1),
        lambda x, n: torch.arange(n) * x.sum(),
    ],
)
def test_sizes_that_only_a_number_tells(function: Callable[..., Any]) -> None:
    """A whole number among the arguments is a size that no tensor's shape has."""
    x = torch.randn(5, 3)
    compiled = torch.compile(function, backend="xlac", options=OPTIONS, dynamic=True)
    for n in (4, 3, 5, 4):
        torch.testing.assert_close(compiled(x, n), function(x, n))


def test_parts_get_the_sizes_that_their_arguments_do_not_show() -> None:
    """Of a part that is handed (n + 1) // 2 columns, n is an argument of the whole graph."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = torch.special.bessel_j0(x[:, ::2])
        return z.reshape(-1).cumsum(0)[: x.shape[0] * 2], z * x.shape[1]

    compiled = torch.compile(f, backend="xlac", dynamic=True)
    for rows, columns in ((3, 4), (5, 7), (2, 9)):
        x = torch.randn(rows, columns)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = compiled(x)
        assert not any("size" in str(one.message).splitlines()[1] for one in told)
        torch.testing.assert_close(found, f(x))


def test_without_fallback_it_is_an_error() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nanmedian(x)

    with pytest.raises(Exception, match="XL7301"):
        torch.compile(f, backend="xlac", options=OPTIONS)(torch.randn(3, 3))


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Exception, match="XL7307") as wrong:
        torch.compile(mlp(), backend="xlac", options={"thread": 2})(torch.randn(2, 6))
    assert "threads" in str(wrong.value)
    with pytest.raises(Exception, match="no mode 'reduce-overhead'"):
        torch.compile(mlp(), backend="xlac", mode="reduce-overhead")(torch.randn(2, 6))


def test_strides_are_those_of_eager() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y.transpose(0, 1) + 1

    x = torch.randn(3, 4, 5).permute(2, 0, 1)
    for ours, theirs in zip(
        torch.compile(f, backend="xlac", options=OPTIONS)(x), f(x), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()


def test_dropout_keeps_its_share_and_follows_the_seed() -> None:
    layer = torch.nn.Dropout(0.3)
    compiled = torch.compile(layer, backend="xlac", options=OPTIONS)
    x = torch.ones(20_000)
    compiled(x)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(compiled(x))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    dropped = float((drawn[0] == 0).float().mean())
    assert abs(dropped - 0.3) < 5 * (0.3 * 0.7 / len(x)) ** 0.5
    torch.testing.assert_close(
        drawn[0][drawn[0] != 0], torch.full_like(drawn[0][drawn[0] != 0], 1 / 0.7)
    )


def test_mutations_reach_the_caller() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    x, y = torch.randn(4), torch.randn(4)
    twin = x.clone()
    ours, theirs = torch.compile(f, backend="xlac", options=OPTIONS)(x, y), f(twin, y)
    torch.testing.assert_close((ours, x), (theirs, twin))


def test_a_graph_that_computes_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        x = torch.randn(3)
        assert torch.compile(lambda v: (v, 1), backend="xlac")(x)[0] is x


def test_a_tensor_made_inside_from_a_number() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt(torch.tensor(3, dtype=torch.float32)) + torch.tensor([2, 4]).sum()

    x = torch.randn(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        compiled = torch.compile(f, backend="xlac", options=OPTIONS)
        torch.testing.assert_close(compiled(x), f(x))


class GrowingCache(torch.nn.Module):
    """A step of a decoder whose keys and values grow by one."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.output = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        heads = [part.view(1, -1, 2, 4).transpose(1, 2) for part in self.inputs(x).chunk(3, -1)]
        keys = torch.cat([keys, heads[1]], 2)
        values = torch.cat([values, heads[2]], 2)
        found = torch.nn.functional.scaled_dot_product_attention(heads[0], keys, values)
        return self.output(found.transpose(1, 2).reshape(1, 1, 8)), keys, values


def test_a_cache_that_grows_compiles_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch has a symbol for each length; those that are equal are one open size."""
    made: list[object] = []
    executable = driver.executable
    monkeypatch.setattr(driver, "executable", lambda *a: made.append(a) or executable(*a))
    torch.manual_seed(0)
    model = GrowingCache().eval()
    compiled = torch.compile(model, backend="xlac")
    keys, values = torch.randn(1, 2, 2, 4), torch.randn(1, 2, 2, 4)
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(1, 1, 8)
            wanted = model(x, keys, values)
            found = compiled(x, keys, values)
            torch.testing.assert_close(found, wanted)
            _, keys, values = found
    # PyTorch's own for the first; then 3, up to 8, and to 18
    assert len(made) <= 4
