"""A model as a server has it: opened from a file or an artefact, described, and asked by many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from xlac.api import compile
from xlac.artefact.loader import load
from xlac.integrations.serving.batch_axis import Arrays, batch_size, check_rows, row_limit
from xlac.integrations.serving.protocol import (
    WireTensor,
    described,
    inputs_of,
    known_outputs,
    outputs_of,
)
from xlac.integrations.serving.request_queue import RequestQueue
from xlac.integrations.serving.serving_options import ServingOptions, unservable
from xlac.runtime.compiled import Compiled
from xlac_sdk.dtypes import Array
from xlac_sdk.host import manifest
from xlac_sdk.programs.results import Results


class ServedModel:
    """A compiled model that requests of the protocol are answered by. `limit` is the rows of a call
    at most where requests are joined, else 0. Raises SourceError for a model with state, for
    one whose results are sequences and, with batching, for one whose rows cannot be joined.
    """

    def __init__(
        self,
        model: Compiled,
        options: ServingOptions,
        called: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.model, self.program = model, model.program
        if self.program.state_bytes:
            problem = "a model with state answers by what was asked before, and requests are apart"
            raise unservable(problem)
        names = tuple(slot.name for slot in self.program.outputs)
        shaped = Results.of(names, self.program.facts) or Results(names, {}, {})
        self._forms = {name: shaped.forms.get(name, name) for name in shaped.names}
        for name, form in self._forms.items():
            if not isinstance(form, str):
                raise unservable(f"output '{name}' is a sequence, which the protocol does not have")
        self._slots = {slot.name: slot for slot in self.program.outputs}
        self._cut = shaped.extents
        self._types = {name: self._slots[form].dtype for name, form in self._forms.items()}
        self.limit = 0
        if options.batching:
            size = batch_size(self.program)
            self.limit = row_limit(size, options.rows)
            check_rows(self.program, size, self._call)
        self._queue = RequestQueue(self._call, self.limit, options.wait, called)

    @staticmethod
    def open(
        place: Path, options: ServingOptions, called: Callable[[int], None] = lambda _: None
    ) -> ServedModel:
        """The model of an artefact's folder, or of a file that `xlac.compile` takes, compiled for
        all its sizes. Raises SourceError and UnsupportedError as these do.
        """
        if (place / manifest.NAME).is_file():
            if options.target or options.threads:
                problem = f"{place} has the target and threads that it was built for"
                raise unservable(problem, "give them to xlac build")
            return ServedModel(load(place), options, called)
        if place.is_dir():
            hint = "xlac build MODEL -o FOLDER makes one"
            raise unservable(f"{place} is no artefact, and no model", hint)
        target = options.target or "cpu"
        model = compile(place, target, sizes="symbolic", threads=options.threads)
        if not isinstance(model, Compiled):
            raise unservable(f"{place} is compiled for each set of its sizes", "fix sizes: --dim")
        return ServedModel(model, options, called)

    @property
    def inputs(self) -> list[WireTensor]:
        """Name, type and shape of each input."""
        return [described(slot) for slot in self.program.inputs]

    @property
    def outputs(self) -> list[WireTensor]:
        """Name, type and shape of each output."""
        return [
            described(self._slots[form], self._cut.get(form, ()))._replace(name=name)
            for name, form in self._forms.items()
        ]

    async def answer(
        self, tensors: Sequence[WireTensor], wanted: Sequence[str] = ()
    ) -> list[WireTensor]:
        """The outputs for some inputs, all or those that are wanted by name. Raises SourceError for
        inputs that the model does not take, and for unknown outputs, before anything is computed.
        """
        inputs = inputs_of(self.program, tensors)
        known_outputs(self.model.outputs, wanted)
        results = await self._queue.results(inputs)
        return outputs_of(results, self._types, wanted)

    def close(self) -> None:
        """Ends its thread."""
        self._queue.close()

    def _call(self, inputs: Arrays) -> dict[str, Array]:
        results = self.model(**inputs)
        return results if isinstance(results, dict) else {self.model.outputs[0]: results}
