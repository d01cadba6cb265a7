"""Collectives of interpreted programs: by the same table of functions as generated code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.communicator import ExchangeTable
from xlac_sdk.programs.steps import Collective, CollectiveStart


def exchanging(step: Collective, table: Any) -> Callable[[Array, Array], None]:
    """What a step does, given the first elements of its source and its target. `table` is that of
    `table_of`.
    """
    number, address = step.exchange.number, table.address
    functions = ExchangeTable.from_address(address)
    if isinstance(step, CollectiveStart):

        def start(source: Array, target: Array) -> None:
            functions.start(address, number, _address(source), _address(target))

        return start

    def done(source: Array, target: Array) -> None:
        functions.done(address, number)

    return done


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
