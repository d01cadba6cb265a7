"""Thread pools for parallel kernels: one for each thread count, shared by all programs, never
destroyed.

The pool is LLVM text too; its idle threads sleep in the kernel, end with the process, and are
recreated on demand in a forked process.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any

from xlac_cpu.llvm.code import Code
from xlac_cpu.pool_block import EXPORTS, FORK, FORK_WATCHED, SIZE, WATCHED
from xlac_sdk.source import Diagnostic, UnsupportedError

if TYPE_CHECKING:
    Block = ctypes.Array[ctypes.c_char]

SPIN = 4000  # polls before a thread goes to sleep: some tens of microseconds
MOST = 255  # threads, as the count of active ones has eight bits

_lock = threading.Lock()
# the pool's library and its function addresses; kept, because threads run it
_code: list[tuple[Any, tuple[int, int]]] = []
_pools: dict[int, Block] = {}


def object_code() -> bytes:
    """The pool's object, for this machine."""
    from xlac_cpu.emit.threads.pool import text
    from xlac_cpu.llvm import objects
    from xlac_cpu.llvm.host import host

    return objects.object_code(text(host()))


def of(threads: int, code: Code | None = None) -> int:
    """The address of the pool of `threads` threads, including the caller. `code` may include the
    pool's functions.
    """
    if os.name != "posix":
        return 0
    if threads > MOST:
        raise UnsupportedError(
            Diagnostic("XL5110", f"{threads} threads are more than the {MOST} a pool can have")
        )
    with _lock:
        if not _code:
            _code.append(_found(code))
            os.register_at_fork(after_in_child=_forked)
        block = _pools.get(threads)
        if block is None:
            block = _pools[threads] = ctypes.create_string_buffer(SIZE + 64)
            prepare(block, threads, _code[0][1])
        return place(block)


def _found(code: Code | None) -> tuple[Any, tuple[int, int]]:
    """The pool's functions, and the object that keeps them."""
    if code is not None and FORK_WATCHED in code.addresses:
        return code.keep, (code.addresses[FORK], code.addresses[FORK_WATCHED])
    from xlac_cpu.llvm import link

    library, addresses = link.load([object_code()], EXPORTS)
    return library, (addresses[FORK], addresses[FORK_WATCHED])


def place(block: Block) -> int:
    """The pool's address: the first cache line of its block."""
    address = ctypes.addressof(block)
    return address + -address % 64


def prepare(block: Block, threads: int, forks: tuple[int, int], spin: int = SPIN) -> None:
    """A pool without threads and jobs."""
    start = place(block)
    ctypes.memset(start, 0, SIZE)
    (
        ctypes.c_void_p.from_address(start).value,
        ctypes.c_void_p.from_address(start + WATCHED).value,
    ) = forks
    ctypes.c_int32.from_address(start + 8).value = threads
    ctypes.c_int32.from_address(start + 12).value = spin


def _forked() -> None:
    """In a forked child the threads do not exist, and no job is running."""
    global _lock
    _lock = threading.Lock()  # another thread may have held the lock
    for threads, block in _pools.items():
        prepare(block, threads, _code[0][1])
