"""Convolutions and attention by cuDNN: an execution plan is made once for each problem, and reused
by every call.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Sequence

from xlac_cuda.device.gpu import Gpu
from xlac_cuda.libraries.cudnn import WITHOUT, Cudnn, wanted
from xlac_cuda.libraries.cudnn_graph import MOST_KNOBS, Operations
from xlac_cuda.libraries.cudnn_names import Attribute, DescriptorKind
from xlac_cuda.libraries.cudnn_plans import CudnnMachine, Plan, PlanChoice
from xlac_cuda.libraries.cudnn_problems import ALIGNED, Problem, offsets, refused, written
from xlac_cuda.plan import Arrays, Whole
from xlac_sdk.libraries.attention import Attention
from xlac_sdk.libraries.findings import Findings
from xlac_sdk.libraries.library import problem
from xlac_sdk.source import Diagnostic, UnsupportedError

A = Attribute
# minimal versions: of the library, and of its softmax and band mask
LEAST, ATTENTION = (9, 0), (9, 21)

# choices of engines in this process: by heuristics, or from another process' findings
_known: dict[tuple[str, ...], PlanChoice] = {}
_lock = threading.Lock()


class CudnnCalls:
    """The calls of one program on one GPU. The context must be current in every method, and calls
    must not overlap.
    """

    def __init__(self, gpu: Gpu, attends: bool) -> None:
        self.gpu = gpu
        self.dnn = wanted(ATTENTION if attends else LEAST)
        self.handle = self.dnn.handle()
        self._plans: dict[tuple[Problem, tuple[int, ...]], _Planned] = {}

    def __call__(self, whole: Whole, arrays: Arrays, findings: Findings) -> Callable[[int], None]:
        """Prepares one operation, to be submitted to a stream."""
        asked = problem(whole.step.attributes)
        assert isinstance(asked, Problem)
        if asked.result.empty:
            return lambda stream: None
        *places, workspace = (place.at(arrays) for place in whole.places)
        addresses = [place + offset for place, offset in zip(places, offsets(asked), strict=True)]
        key = asked, tuple(min(ALIGNED, address & -address) for address in addresses)
        if key not in self._plans:
            self._plans[key] = _Planned(self.dnn, self.handle, self.gpu, *key, findings)
        plan = self._plans[key]
        return lambda stream: plan.run(addresses, workspace, stream)

    def close(self) -> None:
        """Releases everything."""
        for plan in self._plans.values():
            plan.operations.close()
        self._plans.clear()
        self.dnn("cudnnDestroy", self.handle)


class _Planned:
    """One problem for arguments of some alignment."""

    def __init__(
        self,
        dnn: Cudnn,
        handle: int,
        gpu: Gpu,
        asked: Problem,
        alignments: tuple[int, ...],
        findings: Findings,
    ) -> None:
        self.dnn, self.handle = dnn, handle
        self.operations = Operations(dnn, CudnnMachine.of(handle))
        try:
            self._written = written(asked, self.operations, alignments)
            graph = self.operations.graph()
            key = tuple(map(repr, (dnn.number, gpu.name, gpu.processors, asked, alignments)))
            with _lock:
                before = _known.get(key) or choice_from_json(findings.find("cudnn", *key))
                plan = self._again(graph, asked, before) or self._suggested(graph, asked)
                _known[key] = plan.choice
            if plan.choice != before:
                findings.keep(
                    choice_to_json(plan.choice), f"cuDNN: {_described(asked)}", "cudnn", *key
                )
            self._plan = plan.descriptor
        except BaseException:
            self.operations.close()
            raise

    def run(self, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """Submits it to a stream."""
        scalars = self._written.scalars
        self.dnn("cudnnSetStream", self.handle, stream)
        pack = self.dnn.create(DescriptorKind.VARIANT_PACK)
        try:
            self.dnn.set(pack, A.VARIANT_PACK_UNIQUE_IDS, [*self._written.arguments, *scalars])
            self.dnn.set(
                pack,
                A.VARIANT_PACK_DATA_POINTERS,
                [*addresses, *map(ctypes.addressof, scalars.values())],
            )
            self.dnn.set(pack, A.VARIANT_PACK_WORKSPACE, [workspace])
            self.dnn("cudnnBackendFinalize", pack)
            self.dnn("cudnnBackendExecute", self.handle, self._plan, pack)
        finally:
            self.dnn("cudnnBackendDestroyDescriptor", pack)

    def _again(self, graph: int, asked: Problem, choice: PlanChoice | None) -> Plan | None:
        """The plan of an earlier choice."""
        return (
            None
            if choice is None
            else self.operations.chosen(graph, choice, refused(asked), asked.workspace)
        )

    def _suggested(self, graph: int, asked: Problem) -> Plan:
        """The first plan of the library's heuristics."""
        plan = next(self.operations.suggested(graph, refused(asked), asked.workspace), None)
        if plan is None:
            problem = (
                f"{_described(asked)}: cuDNN {'.'.join(map(str, self.dnn.version))} has no engine "
                "for it on this GPU"
            )
            raise UnsupportedError(Diagnostic("XL5222", problem, hint=WITHOUT))
        return plan


def choice_to_json(choice: PlanChoice) -> str:
    """A choice as text, the inverse of `choice_from_json`."""
    return json.dumps({"engine": choice.engine, "knobs": choice.knobs})


def choice_from_json(text: str | None) -> PlanChoice | None:
    """A stored choice; None for invalid text. The library itself rejects engines that it does not
    have.
    """
    try:
        choice = json.loads(text or "")
        engine, knobs = choice["engine"], choice["knobs"]
        numbers = [engine, *(number for pair in knobs for number in pair)]
        if (
            all(type(n) is int and 0 <= n < 1 << 31 for n in numbers)
            and len(knobs) <= MOST_KNOBS
            and all(len(pair) == 2 for pair in knobs)
        ):
            return PlanChoice(engine, tuple((knob, value) for knob, value in knobs))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _described(asked: Problem) -> str:
    """`a convolution of bf16[8, 64, 56, 56] by [64, 64, 3, 3] with bias, relu`"""
    if isinstance(asked, Attention):
        sides = ", ".join(
            str(list(side.extents)) for side in (asked.queries, asked.keys, asked.values)
        )
        return (
            f"attention of {asked.queries.dtype} {sides}"
            + (" with a mask" if asked.mask else "")
            + (", causal" if asked.causal else "")
        )
    after = ", ".join(
        part
        for part in (
            "addend" if asked.addend else "",
            "bias" if asked.bias else "",
            asked.activation,
        )
        if part
    )
    return (
        f"a convolution of {asked.x.dtype}{list(asked.x.extents)} by {list(asked.kernel.extents)}"
        + (f" with {after}" if after else "")
    )
