"""Collectives as calls of MPI."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xlac_sdk.dtypes import DType
from xlac_sdk.host.capi.ranks import RanksApi
from xlac_sdk.programs.exchange_checks import MESSAGES
from xlac_sdk.programs.program import Argument
from xlac_sdk.programs.steps import Collective, CollectiveStart, RankExchange
from xlac_sdk.source import Diagnostic, UnsupportedError

LARGEST = 2**31 - 1  # elements of one message
TYPES = {
    DType.F64: "MPI_DOUBLE", DType.F32: "MPI_FLOAT", DType.I64: "MPI_INT64_T",
    DType.I32: "MPI_INT32_T", DType.I16: "MPI_INT16_T", DType.I8: "MPI_INT8_T",
    DType.U64: "MPI_UINT64_T", DType.U32: "MPI_UINT32_T", DType.U16: "MPI_UINT16_T",
    DType.U8: "MPI_UINT8_T", DType.BOOL: "MPI_UINT8_T",
    # halves are moved, never combined
    DType.F16: "MPI_UINT16_T", DType.BF16: "MPI_UINT16_T",
}  # fmt: skip
COMBINE = {"add": "MPI_SUM", "mul": "MPI_PROD", "max": "MPI_MAX", "min": "MPI_MIN"}

Pointer = Callable[[Argument, bool], str]


class Exchanges:
    """Writes the collectives of a program. Those that are under way are tested between kernels, so
    that MPI moves their messages.
    """

    def __init__(self, ranks: RanksApi, upper: str) -> None:
        self.ranks, self.upper = ranks, upper
        self.open: dict[int, RankExchange] = {}

    def write(self, step: Collective, pointer: Pointer, pad: str) -> Iterator[str]:
        """The lines of a start or a done. Raises UnsupportedError for a message that is too
        large.
        """
        one = step.exchange
        requests = self._requests(one)
        if isinstance(step, CollectiveStart):
            yield from self._start(step, pointer, pad)
            if requests[1]:
                self.open[one.number] = one
        elif requests[1]:
            del self.open[one.number]
            yield from self._returning("arrived", one, pad)

    def between(self, pad: str) -> Iterator[str]:
        """The lines between two kernels: one message is tested for all, as MPI moves them all."""
        messages = [one for one in self.open.values() if one.kind in MESSAGES]
        others = [one for one in self.open.values() if one.kind not in MESSAGES]
        for one in others or messages[:1]:
            yield from self._returning("moved", one, pad)

    def _returning(self, function: str, one: RankExchange, pad: str) -> Iterator[str]:
        first, count = self._requests(one)
        yield f"{pad}status = {function}(context, {one.number}, {first}, {count});"
        yield f"{pad}if (status != {self.upper}_OK) return status;"

    def _requests(self, one: RankExchange) -> tuple[int, int]:
        """The first request of a collective, and how many it has."""
        first, end = self.ranks.requests[one.number : one.number + 2]
        return first, end - first

    def _start(self, step: CollectiveStart, pointer: Pointer, pad: str) -> Iterator[str]:
        one, group = step.exchange, self.ranks.group(step.exchange.axes)
        sent, received = step.sent, step.received
        if not (isinstance(sent, int) and isinstance(received, int)):
            problem = f"collective '{self.ranks.names[one.number]}' has no fixed size"
            raise UnsupportedError(Diagnostic("XL7806", problem))
        if max(sent, received) > LARGEST:
            problem = f"collective '{self.ranks.names[one.number]}' has {max(sent, received):,}"
            raise UnsupportedError(Diagnostic("XL7806", f"{problem} elements; MPI sends 2^31 - 1"))
        failed = f"return broken(context, {one.number}, {self.upper}_MPI_FAILED);"
        if one.kind in MESSAGES:
            receives = one.kind == "receive"
            count, call = (received, "Irecv") if receives else (sent, "Isend")
            what = f"{pointer(step.target, receives)}, {count}, {TYPES[step.target.slot.dtype]}"
            request = f"context->groups[{group}], &context->requests[{self._requests(one)[0]}]"
            message = f"MPI_{call}({what}, {one.root}, {one.tag}, {request})"
            yield f"{pad}if ({message} != MPI_SUCCESS) {failed}"
            return
        target = pointer(step.target, True)
        if one.kind == "axis_index":
            yield f"{pad}*({target}) = (int32_t)context->numbers[{group}];"
            return
        source, kind = pointer(step.source, False), TYPES[step.target.slot.dtype]
        nbytes = received * step.target.slot.dtype.nbytes
        where = f"context->groups[{group}], &context->requests[{self._requests(one)[0]}]"
        if one.kind == "permute":
            yield from self._permute(step, source, target, kind, failed, pad)
            return
        if one.kind == "broadcast":
            if_root = f"if (context->numbers[{group}] == {one.root})"
            yield f"{pad}{if_root} memcpy({target}, {source}, {nbytes});"
        each, by = sent // self._size(one), self._operation(step)
        call = {
            "all_reduce": f"allreduce({source}, {target}, {sent}, {kind}, {by}",
            "reduce_scatter": f"reduce_scatter_block({source}, {target}, {received}, {kind}, {by}",
            "all_gather": f"allgather({source}, {sent}, {kind}, {target}, {sent}, {kind}",
            "all_to_all": f"alltoall({source}, {each}, {kind}, {target}, {each}, {kind}",
            "broadcast": f"bcast({target}, {received}, {kind}, {one.root}",
        }[one.kind]
        yield f"{pad}if (MPI_I{call}, {where}) != MPI_SUCCESS) {failed}"

    def _permute(
        self, step: CollectiveStart, source: str, target: str, kind: str, failed: str, pad: str
    ) -> Iterator[str]:
        one, group = step.exchange, self.ranks.group(step.exchange.axes)
        size, first = self._size(one), self._requests(one)[0]
        senders = {to: of for of, to in one.pairs}
        receivers = dict(one.pairs)
        nbytes = step.target.slot.dtype.nbytes
        yield f"{pad}{{"
        for name, table in (("from", senders), ("to", receivers)):
            numbers = ", ".join(str(table.get(number, -1)) for number in range(size))
            yield f"{pad}    static const int {name}_number[{size}] = {{ {numbers} }};"
        for name in ("from", "to"):
            known = f"{name}_number[context->numbers[{group}]]"
            yield f"{pad}    const int {name} = {known} < 0 ? MPI_PROC_NULL : {known};"
        assert isinstance(step.received, int)
        cleared = f"memset({target}, 0, {step.received * nbytes});"
        yield f"{pad}    if (from == MPI_PROC_NULL) {cleared}"
        tag, where = one.number & 0x3FFF, f"context->groups[{group}], &context->requests"
        yield (
            f"{pad}    if (MPI_Irecv({target}, {step.received}, {kind}, from, {tag}, "
            f"{where}[{first}]) != MPI_SUCCESS) {failed}"
        )
        yield (
            f"{pad}    if (MPI_Isend({source}, {step.sent}, {kind}, to, {tag}, "
            f"{where}[{first + 1}]) != MPI_SUCCESS) {failed}"
        )
        yield f"{pad}}}"

    def _operation(self, step: CollectiveStart) -> str:
        """What combines the elements of a collective, in C."""
        asked = step.exchange.combine, step.target.slot.dtype
        extremes = self.ranks.extremes
        if asked in extremes:
            return f"context->extremes[{extremes.index(asked)}]"
        return COMBINE[step.exchange.combine]

    def _size(self, one: RankExchange) -> int:
        """The ranks of a group."""
        sizes, count = dict(self.ranks.mesh), 1
        for axis in one.axes:
            count *= sizes[axis]
        return count


def in_process() -> UnsupportedError:
    """The error for collectives in C that this process would run."""
    problem = "C that runs in this process has no collectives"
    hint = "xlac build --target c --mesh … writes C that calls MPI; --target cpu runs here"
    return UnsupportedError(Diagnostic("XL7806", problem, hint=hint))
