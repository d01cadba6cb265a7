"""Specs of many nodes, of five kinds, for measuring how compile time grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

HEAD = (
    "xlac: 1\nmodel: {kind}_{count}\nweights: {{init: {{seed: 0}}}}\ninputs: {{x: "
    "'{type}'}}\ngraph:\n"
)


def chain(count: int) -> Iterator[str]:
    """Pointwise operations, each on what the one before found."""
    forms = ("relu({0})", "tanh({0})", "mul({0}, x)", "add({0}, 0.5)", "sigmoid({0})")
    for i in range(count):
        yield f"n{i}: " + forms[i % len(forms)].format(f"n{i - 1}" if i else "x")


def fan(count: int) -> Iterator[str]:
    """Small layers that read one input, of eight widths; their means are added up as a tree."""
    layers = count // 4
    for i in range(layers):
        yield f"d{i}: {{op: linear, in: x, units: {8 + i % 8}}}"
        yield f"r{i}: relu(d{i})"
        yield f"m{i}: mean(r{i}, axis=-1)"
    open_, made = [f"m{i}" for i in range(layers)], 0
    while len(open_) > 1:
        yield f"t{made}: add({open_[0]}, {open_[1]})"
        open_ = [*open_[2:], f"t{made}"]
        made += 1


def resnet(count: int) -> Iterator[str]:
    """Residual blocks of a small convolution, batch norm and relu."""
    before = "x"
    for i in range(count // 4):
        yield f"c{i}: {{op: conv2d, in: {before}, filters: 8, kernel: 3, pad: 1, bias: false}}"
        yield f"b{i}: {{op: batch_norm, in: c{i}}}"
        yield f"s{i}: add(b{i}, {before})"
        yield f"n{i}: relu(s{i})"
        before = f"n{i}"


def softmax(count: int) -> Iterator[str]:
    """Softmax of rows that a product scales, one after another."""
    before = "x"
    for i in range(count // 2):
        yield f"p{i}: mul({before}, x)"
        yield f"n{i}: softmax(p{i}, axis=-1)"
        before = f"n{i}"


def residual(count: int) -> Iterator[str]:
    """Transformer-like blocks without attention: layer norm, two layers with gelu between, and a
    sum.
    """
    before = "x"
    for i in range(count // 5):
        yield f"l{i}: {{op: layer_norm, in: {before}}}"
        yield f"a{i}: {{op: linear, in: l{i}, units: 32}}"
        yield f"g{i}: gelu(a{i})"
        yield f"b{i}: {{op: linear, in: g{i}, units: 16}}"
        yield f"n{i}: add(b{i}, {before})"
        before = f"n{i}"


KINDS: dict[str, tuple[Callable[[int], Iterator[str]], str]] = {
    "chain": (chain, "f32[16, 64]"),
    "fan": (fan, "f32[4, 16]"),
    "resnet": (resnet, "f32[1, 8, 8, 8]"),
    "softmax": (softmax, "f32[8, 32]"),
    "residual": (residual, "f32[4, 16]"),
}


def spec(kind: str, count: int) -> str:
    """The text of a spec with about `count` nodes; the last is its output."""
    lines, type = KINDS[kind][0](count), KINDS[kind][1]
    body = [f"  {line}" for line in lines]
    last = body[-1].strip().partition(":")[0]
    return "\n".join(
        [HEAD.format(kind=kind, count=count, type=type).rstrip("\n"), *body, f"outputs: [{last}]\n"]
    )
