"""The runtime of MLServer for models that xlac compiles: a model's settings name it as
`"implementation": "xlac.integrations.mlserver.XlacRuntime"` (docs/SERVING.md).
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

from xlac.support.extras import needed

with needed("xlac.integrations.mlserver"):
    import mlserver
    from mlserver import types
from mlserver.errors import InferenceError, MLServerError
from mlserver.utils import get_model_uri

from xlac.integrations.serving.call_metric import requests_in_call
from xlac.integrations.serving.protocol import WireTensor
from xlac.integrations.serving.served import ServedModel
from xlac.integrations.serving.serving_options import ServingOptions, unservable
from xlac_sdk.source import SourceError, XlacError


class XlacRuntime(mlserver.MLModel):
    """A model on MLServer. `parameters.uri` is an artefact's folder, or a file that `xlac.compile`
    takes; `parameters.extra` has the options of ServingOptions.
    """

    async def load(self) -> bool:
        """Opens the model; a spec is compiled. Raises SourceError and UnsupportedError."""
        if self.settings.max_batch_size > 1:
            problem = "max_batch_size of the server joins requests of different shapes"
            raise unservable(problem, 'use "batching" in parameters.extra: docs/SERVING.md')
        place = Path(await get_model_uri(self.settings))
        options = ServingOptions.of(self.settings.parameters.extra or {})
        seen = requests_in_call().labels(model=self.name, version=self.version).observe
        loop = asyncio.get_running_loop()
        opened = partial(ServedModel.open, place, options, seen)
        self._served = await loop.run_in_executor(None, opened)
        self.settings.platform = self.settings.platform or f"xlac_{self._served.model.target.name}"
        self.inputs = [types.MetadataTensor(**_fields(t)) for t in self._served.inputs]
        self.outputs = [types.MetadataTensor(**_fields(t)) for t in self._served.outputs]
        return True

    async def predict(self, payload: types.InferenceRequest) -> types.InferenceResponse:
        """The answer to a request. Raises InferenceError, which is status 400, for one that the
        model does not take, and MLServerError, status 500, where the call failed.
        """
        wanted = [output.name for output in payload.outputs or ()]
        try:
            results = await self._served.answer(list(map(_tensor, payload.inputs)), wanted)
        except SourceError as error:
            raise InferenceError(_told(error)) from None
        except XlacError as error:
            raise MLServerError(_told(error), 500) from None
        outputs = [types.ResponseOutput(**_fields(t), data=t.data) for t in results]
        return types.InferenceResponse(
            model_name=self.name, model_version=self.version, outputs=outputs
        )

    async def unload(self) -> bool:
        """Ends the model's thread."""
        served = self.__dict__.pop("_served", None)
        if served is not None:
            served.close()
        return True


def _told(error: XlacError) -> str:
    """What a client reads: the messages without their places in files."""
    hints = (f"; {d.hint}" if d.hint else "" for d in error.diagnostics)
    pairs = zip(error.diagnostics, hints, strict=True)
    return "\n".join(f"{d.message} [{d.code}]{hint}" for d, hint in pairs)


def _fields(tensor: WireTensor) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}


def _tensor(given: types.RequestInput) -> WireTensor:
    """A tensor of a request: HTTP gives data and types as objects, gRPC as they are."""
    data = getattr(given.data, "root", given.data)
    datatype = getattr(given.datatype, "value", given.datatype)
    return WireTensor(given.name, datatype, tuple(given.shape), data)
