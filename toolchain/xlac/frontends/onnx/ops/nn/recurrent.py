"""Recurrent networks: RNN, GRU and LSTM (operator sets 1 to 22; since 14 the batch may come first).

The products of all inputs with their weights are computed at once, before the steps; a step only
multiplies the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.nn.gates import Function, functions
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.checks import undivided
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType

Step = Callable[..., tuple[Node, ...]]
"""Maps (states, the input products of this step, the values shared by all steps) to new states."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@operator("RNN", since=1)
def rnn(call: OperatorCall) -> tuple[Node, ...]:
    """Operator sets 1, 7, 14 and 22: h = f(x W' + h R' + biases)."""

    def step(f: Function) -> Step:
        def cell_step(h: Node, x: Node, r: Node) -> tuple[Node, ...]:
            return (f(build.add(x, product(h, r))),)

        return cell_step

    return _network(
        call, 1, 1, ("Tanh",), lambda at, fs: (step(*fs), at.bias(0, 1), [at.recurrent])
    )


@operator("GRU", since=1)
def gru(call: OperatorCall) -> tuple[Node, ...]:
    """Operator sets 1, 3, 7, 14 and 22. Gates: update, reset, hidden. With `linear_before_reset`
    the reset gate scales h R' instead of h.
    """
    linear = bool(call.attr("linear_before_reset", 0))

    def step(f: Function, g: Function) -> Step:
        def cell_step(h: Node, x: Node, r: Node, *bias: Node) -> tuple[Node, ...]:
            xz, xr, xh = parts(x, 3)
            size = h.shape[1]
            if linear:
                hz, hr, hh = parts(product(h, r), 3)
                z, reset = f(build.add(xz, hz)), f(build.add(xr, hr))
                new = g(build.add(xh, build.mul(reset, build.add(hh, bias[0]))))
            else:
                hz, hr = parts(product(h, build.cut(r, 0, 0, size * 2)), 2)
                z, reset = f(build.add(xz, hz)), f(build.add(xr, hr))
                new = g(
                    build.add(xh, product(build.mul(reset, h), build.cut(r, 0, size * 2, size * 3)))
                )
            return (build.add(build.mul(build.sub(1.0, z), new), build.mul(z, h)),)

        return cell_step

    def direction(at: Direction, fs: Sequence[Function]) -> tuple[Step, Node, list[Node]]:
        own, recurrent = at.bias(0), at.bias(1)
        if not linear:
            return step(*fs), build.add(own, recurrent), [at.recurrent]
        z, r, h = parts(recurrent, 3)
        before = build.add(own, build.concat((z, r, build.like(0.0, h))))
        return step(*fs), before, [at.recurrent, h]

    return _network(call, 3, 1, ("Sigmoid", "Tanh"), direction)


@operator("LSTM", since=1)
def lstm(call: OperatorCall) -> tuple[Node, ...]:
    """Operator sets 1, 7, 14 and 22. Gates: input, output, forget, cell; peepholes add the cell to
    the first three.
    """
    coupled = bool(call.attr("input_forget", 0))

    def step(f: Function, g: Function, h_of: Function) -> Step:
        def cell_step(h: Node, c: Node, x: Node, r: Node, *peepholes: Node) -> tuple[Node, ...]:
            i, o, forget, cell = parts(build.add(x, product(h, r)), 4)
            pi, po, pf = parts(peepholes[0], 3) if peepholes else (None, None, None)
            i = f(seen(i, pi, c))
            forget = build.sub(1.0, i) if coupled else f(seen(forget, pf, c))
            c = build.add(build.mul(forget, c), build.mul(i, g(cell)))
            return build.mul(f(seen(o, po, c)), h_of(c)), c

        return cell_step

    def direction(at: Direction, fs: Sequence[Function]) -> tuple[Step, Node, list[Node]]:
        peepholes = [] if call.get(7) is None else [at.of(call[7])]
        return step(*fs), at.bias(0, 1), [at.recurrent, *peepholes]

    return _network(call, 4, 2, ("Sigmoid", "Tanh", "Tanh"), direction)


def product(h: Node, r: Node) -> Node:
    """h Rᵀ; R is stored with a row for each unit of each gate."""
    return build.dot(h, r, ((1,), (1,)))


def parts(x: Node, count: int) -> tuple[Node, ...]:
    """Equal parts of the last axis."""
    axis, whole = x.type.rank - 1, x.shape[-1]
    if not isinstance(whole, int) or whole % count:
        raise ShapeError(f"{x.type}: {undivided(whole, 'gates', f'{count}')}")
    size = whole // count
    return tuple(build.cut(x, axis, n * size, (n + 1) * size) for n in range(count))


def seen(gate: Node, peephole: Node | None, c: Node) -> Node:
    """The gate plus its peephole times the cell; the gate itself if there is no peephole."""
    return gate if peephole is None else build.add(gate, build.mul(c, peephole))


class Direction:
    """The weights of one direction, in the compute type."""

    def __init__(self, call: OperatorCall, number: int, gates: int) -> None:
        self.call, self.number, self.gates = call, number, gates
        self.weight, self.recurrent = self.of(call[1]), self.of(call[2])

    def of(self, learned: Node) -> Node:
        """This direction's slice of a tensor whose first axis is the directions."""
        if learned.shape[0] not in (1, 2) or self.number >= learned.shape[0]:
            raise ShapeError(f"{learned.type} has nothing for direction {self.number}")
        part = build.cut(learned, 0, self.number, self.number + 1)
        return build.compute(build.reshape(part, learned.shape[1:]))

    def bias(self, *halves: int) -> Node:
        """The sum of the biases of the inputs (0) and of the state (1)."""
        count = self.weight.shape[0]
        learned = self.call.get(3)
        if learned is None:
            return build.full(0.0, (count,), self.weight.type.dtype)
        both = parts(self.of(learned), 2)
        return both[halves[0]] if len(halves) == 1 else build.add(*both)


def _network(
    call: OperatorCall,
    gates: int,
    states: int,
    default: Sequence[str],
    plan: Callable[[Direction, Sequence[Function]], tuple[Step, Node, list[Node]]],
) -> tuple[Node, ...]:
    """y (time, directions, batch, hidden), and the final value of each state (directions, batch,
    hidden).

    `plan` returns a direction's step, the bias of its input products, and the values shared by all
    steps.
    """
    given = call.attr("direction", "forward")
    if given not in DIRECTIONS:
        call.fail(f"direction is one of {', '.join(DIRECTIONS)}, not '{given}'")
    backwards = DIRECTIONS[given]
    batch_first = bool(call.attr("layout", 0))
    x = build.transpose(call[0], (1, 0, 2)) if batch_first else call[0]
    activations = functions(call, default, len(backwards))
    ys: list[Node] = []
    lasts: list[tuple[Node, ...]] = []
    for number, reverse in enumerate(backwards):
        at = Direction(call, number, gates)
        step, bias, rest = plan(at, activations[number])
        products = build.add(build.dot(build.compute(x), at.weight, ((2,), (1,))), bias)
        firsts = [_first(call, 5 + n, number, x.shape[1], at, batch_first) for n in range(states)]
        y, *last = _steps(step, firsts, products, rest, call.get(4), reverse)
        ys.append(build.reshape(y, (y.shape[0], 1, *y.shape[1:])))
        lasts.append(tuple(build.reshape(s, (1, *s.shape)) for s in last))
    y = build.concat(ys, 1)
    ends = [build.concat([last[n] for last in lasts], 0) for n in range(states)]
    if batch_first:
        y, ends = build.transpose(y, (2, 0, 1, 3)), [build.transpose(e, (1, 0, 2)) for e in ends]
    return tuple(build.cast(n, call[0].type.dtype) for n in (y, *ends))


def _first(
    call: OperatorCall, number: int, direction: int, batch: Dim, at: Direction, batch_first: bool
) -> Node:
    """An initial state: (batch, hidden), zeros unless given."""
    given = call.get(number)
    if given is None:
        return build.full(0.0, (batch, at.recurrent.shape[1]), at.weight.type.dtype)
    return at.of(build.transpose(given, (1, 0, 2)) if batch_first else given)


def _steps(
    step: Step,
    firsts: list[Node],
    products: Node,
    rest: list[Node],
    lengths: Node | None,
    reverse: bool,
) -> tuple[Node, ...]:
    """y (time, batch, hidden) and the final states. After the end of an example its states stay
    unchanged, and y is 0.
    """
    scanned, extra = [products], list(rest)
    if lengths is not None:
        scanned.append(build.iota((products.shape[0],), 0))
        extra.append(build.cast(lengths, DType.I64))
    states = len(firsts)

    def body(*values: Node) -> tuple[Node, ...]:
        before, others = values[:states], values[states + len(scanned) :]
        after = step(*before, values[states], *others[: len(rest)])
        if lengths is None:
            return *after, after[0]
        inside = build.reshape(build.compare(values[states + 1], "lt", others[-1]), (-1, 1))
        kept = [build.select(inside, new, old) for new, old in zip(after, before, strict=True)]
        return *kept, build.select(inside, after[0], 0.0)

    types = [
        *(f.type for f in firsts),
        *(s.type.with_shape(s.shape[1:]) for s in scanned),
        *(e.type for e in extra),
    ]
    op = Scan(build.graph("step", types, body), products.shape[0], states, len(scanned), reverse)
    *last, y = build.results(Node.of(op, *firsts, *scanned, *extra))
    return y, *last
