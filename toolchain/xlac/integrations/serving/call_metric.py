"""The metric of calls, beside those of MLServer."""

from __future__ import annotations

from functools import cache

from xlac.support.extras import needed

with needed("xlac.integrations.mlserver"):
    from prometheus_client import Histogram


@cache
def requests_in_call() -> Histogram:
    """How many requests each call of a model answered, by model and version.

    Made when first asked for, as the server decides before where its processes keep numbers, and
    once for a process; it is in the default registry, as MLServer shows its own only where models
    are in other processes.
    """
    about = "requests that one call of the model answered"
    buckets = [2**power for power in range(11)]
    return Histogram("xlac_requests_in_call", about, ["model", "version"], buckets=buckets)
