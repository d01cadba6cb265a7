"""What runs the parts of a map: processes of this machine, or the workers of Dask or Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from xlac.fleet.job import MapJob, RowRange, compute
from xlac.support.extras import needed
from xlac_sdk.source import Diagnostic, UnavailableError

RETRIES = 5  # of a part whose process ended

Done = Callable[[RowRange], object]


def by_processes(job: MapJob, parts: Sequence[RowRange], workers: int, done: Done) -> None:
    """Processes of this machine. Parts of a process that ends are computed by new ones. Raises
    UnavailableError where processes end again and again.
    """
    left = set(parts)
    for _ in range(RETRIES + 1):
        try:
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                futures = [pool.submit(compute, job, rows) for rows in sorted(left)]
                try:
                    for future in as_completed(futures):
                        rows = future.result()
                        left.discard(rows)
                        done(rows)
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
            return
        except BrokenProcessPool:
            left = {rows for rows in left if not job.place(rows).exists()}
            if not left:
                return
    raise _ended(len(left))


def by_dask(
    job: MapJob, parts: Sequence[RowRange], workers: int, done: Done, scheduler: str | None
) -> None:
    """The workers of a scheduler of Dask, or of one that is started here. Raises UnavailableError
    where workers end again and again.
    """
    with needed("--engine dask"):
        dask: Any = import_module("dask.distributed")
    about = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with dask.Client(scheduler) if scheduler else dask.Client(**about) as client:
        futures = client.map(compute, [job] * len(parts), parts, pure=False, retries=RETRIES)
        try:
            for future in dask.as_completed(futures):
                done(future.result())
        except dask.KilledWorker:
            left = sum(not job.place(rows).exists() for rows in parts)
            raise _ended(left) from None


def by_ray(
    job: MapJob, parts: Sequence[RowRange], workers: int, done: Done, scheduler: str | None
) -> None:
    """The workers of a cluster of Ray, by its address, or of one that is started here. Raises
    UnavailableError where workers end again and again.
    """
    with needed("--engine ray"):
        ray: Any = import_module("ray")
    about: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False}
    ray.init(**({"address": scheduler} if scheduler else about), log_to_driver=False)
    problems = ray.exceptions
    try:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(compute)
        waiting = [task.remote(job, rows) for rows in parts]
        while waiting:
            ended, waiting = ray.wait(waiting)
            for rows in ray.get(ended):
                done(rows)
    except problems.RayTaskError as error:
        raise error.cause from None
    except (problems.WorkerCrashedError, problems.NodeDiedError, problems.OutOfMemoryError):
        raise _ended(sum(not job.place(rows).exists() for rows in parts)) from None
    finally:
        ray.shutdown()


def _ended(left: int) -> UnavailableError:
    problem = f"the workers ended again and again, and {left} parts are not computed"
    hint = "look for what ends them, such as memory; the same command goes on with these parts"
    return UnavailableError(Diagnostic("XL7816", problem, hint=hint))
