"""Cases of several operators: branches, loops, variables, complex numbers and recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tflite_case import Case, const, random, x
from tflite_writer import Graph, Tensor

Operator = tuple[str, dict[str, Any], list[int], list[int]]
ADD = {"table": "AddOptions", "fused_activation_function": 0}


def cases() -> Iterator[Case]:
    """The cases."""
    yield _spectrum()
    yield _branch()
    yield _loop()
    yield _called()
    yield _variable()
    for major in (False, True):
        yield _lstm(f"LSTM_{major}", major)
    yield _lstm("LSTM_peephole", False, peepholes=True)
    yield _lstm("LSTM_projection", False, projection=True)
    yield _lstm("LSTM_coupled", False, coupled=True)
    yield _lstm("LSTM_normalized", False, normalized=True)
    yield _lstm("LSTM_all", False, peepholes=True, projection=True, coupled=True, normalized=True)
    yield _rnn("UNIDIRECTIONAL_SEQUENCE_RNN", [2, 5, 3], "SequenceRNNOptions", time_major=False)
    yield _rnn("RNN", [2, 3], "RNNOptions")
    for rank in (1, 2):
        yield _svdf(rank)


def _spectrum() -> Case:
    tensors = [x(2, 6, 8), const([8, 8]), Tensor("c64"), Tensor(), Tensor(), Tensor()]
    operators: list[Operator] = [
        ("RFFT2D", {}, [0, 1], [2]),
        ("REAL", {}, [2], [3]),
        ("IMAG", {}, [2], [4]),
        ("COMPLEX_ABS", {}, [2], [5]),
    ]
    return Case("RFFT2D", Graph(tensors, operators, [0], [3, 4, 5]))


def _branch() -> Case:
    """Adds a large constant, or negates."""
    table = {"table": "IfOptions", "then_subgraph_index": 1, "else_subgraph_index": 2}
    size = (3, 400)
    main = Graph(
        [Tensor("bool", ()), x(*size), Tensor("f32", size)],
        [("IF", table, [0, 1], [2])],
        [0, 1],
        [2],
    )
    added = Graph([x(*size), random(1, *size), x(*size)], [("ADD", ADD, [0, 1], [2])], [0], [2])
    negated = Graph([x(*size), x(*size)], [("NEG", {}, [0], [1])], [0], [1])
    return Case("IF", main, others=(added, negated))


def _loop() -> Case:
    """Adds a large constant, and 1 to a counter, five times."""
    table = {"table": "WhileOptions", "cond_subgraph_index": 1, "body_subgraph_index": 2}
    shape = (30, 20)
    counter = Tensor("i32", ())
    main = Graph(
        [const(0), x(*shape), counter, x(*shape)], [("WHILE", table, [0, 1], [2, 3])], [1], [3]
    )
    test = Graph(
        [counter, x(*shape), const(5), Tensor("bool", ())], [("LESS", {}, [0, 2], [3])], [0, 1], [3]
    )
    body = Graph(
        [counter, x(*shape), const(1), random(1, *shape), counter, x(*shape)],
        [("ADD", ADD, [0, 2], [4]), ("ADD", ADD, [1, 3], [5])], [0, 1], [4, 5],
    )  # fmt: skip
    return Case("WHILE", main, others=(test, body))


def _called() -> Case:
    main = Graph(
        [x(3), x(3)], [("CALL", {"table": "CallOptions", "subgraph": 1}, [0], [1])], [0], [1]
    )
    negated = Graph([x(3), x(3)], [("NEG", {}, [0], [1])], [0], [1])
    return Case("CALL", main, others=(negated,))


def _variable() -> Case:
    """A sum over calls that begins at 2.5."""
    handle = {"table": "VarHandleOptions", "container": "", "shared_name": "total"}
    resource = Tensor("resource", ())
    main = Graph(
        [x(3), resource, x(3), x(3)],
        [
            ("CALL_ONCE", {"table": "CallOnceOptions", "init_subgraph_index": 1}, [], []),
            ("VAR_HANDLE", handle, [], [1]),
            ("READ_VARIABLE", {}, [1], [2]),
            ("ADD", ADD, [0, 2], [3]),
            ("ASSIGN_VARIABLE", {}, [1, 3], []),
        ],
        [0],
        [3],
    )
    start = Graph(
        [resource, const([2.5] * 3, "f32")],
        [("VAR_HANDLE", handle, [], [0]), ("ASSIGN_VARIABLE", {}, [0, 1], [])],
    )
    return Case("variable", main, calls=3, others=(start,))


def _model(
    name: str, operator: str, table: dict[str, Any], operands: Sequence[Tensor | None]
) -> Case:
    """A model of one operator with variables, called twice."""
    given = [t for t in operands if t is not None]
    numbers = iter(range(len(given)))
    inputs = [-1 if t is None else next(numbers) for t in operands]
    graph = Graph([*given, Tensor()], [(operator, table, inputs, [len(given)])], [0], [len(given)])
    return Case(name, graph, calls=2)


def _lstm(
    name: str,
    major: bool,
    peepholes: bool = False,
    projection: bool = False,
    coupled: bool = False,
    normalized: bool = False,
) -> Case:
    batch, time, inputs, units = 2, 5, 3, 4
    out = 6 if projection else units
    weights: list[Tensor | None] = [random(n, units, inputs) for n in range(4)]
    recurrent: list[Tensor | None] = [random(4 + n, units, out) for n in range(4)]
    seen: list[Tensor | None] = [random(8 + n, units) if peepholes else None for n in range(3)]
    bias: list[Tensor | None] = [random(12 + n, units) for n in range(4)]
    norms: list[Tensor | None] = [random(30 + n, units) if normalized else None for n in range(4)]
    if coupled:
        weights[0] = recurrent[0] = bias[0] = seen[0] = norms[0] = None
    project = [random(16, out, units), random(17, out)] if projection else [None, None]
    states = [
        Tensor("f32", (batch, out), variable=True),
        Tensor("f32", (batch, units), variable=True),
    ]
    table = {
        "table": "UnidirectionalSequenceLSTMOptions",
        "fused_activation_function": 4,
        "cell_clip": 0.7,
        "proj_clip": 0.6,
        "time_major": major,
    }
    first = x(time, batch, inputs) if major else x(batch, time, inputs)
    operands = [first, *weights, *recurrent, *seen, *bias, *project, *states, *norms]
    return _model(name, "UNIDIRECTIONAL_SEQUENCE_LSTM", table, operands)


def _rnn(name: str, shape: Sequence[int], table: str, **options: Any) -> Case:
    state = Tensor("f32", (2, 4), variable=True)
    operands = [x(*shape), random(1, 4, 3), random(2, 4, 4), random(3, 4), state]
    settings = {"table": table, "fused_activation_function": 4} | options
    return _model(name, name, settings, operands)


def _svdf(rank: int) -> Case:
    filters, memory = 6, 5
    state = Tensor("f32", (2, filters * memory), variable=True)
    table = {"table": "SVDFOptions", "rank": rank, "fused_activation_function": 1}
    operands = [
        x(2, 3),
        random(1, filters, 3),
        random(2, filters, memory),
        random(3, filters // rank),
        state,
    ]
    return _model(f"SVDF_{rank}", "SVDF", table, operands)
