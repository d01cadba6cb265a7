"""The status codes that the functions of the C API return."""

from __future__ import annotations

from enum import Enum

UNKNOWN = "no status of this library"


class StatusCode(Enum):
    """A status code: its name, number and text."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text


class Status(StatusCode):
    """The status codes of every program."""

    OK = 0, "done"
    NULL_POINTER = 1, "a pointer is null"
    SMALL_MEMORY = 2, "the memory is smaller than the model needs"
    MISALIGNED = 3, "a pointer is not aligned as the header says"
    OUT_OF_BOUNDS = 4, "a size is outside its bounds"
    NO_WEIGHTS = 5, "the weights are missing"
    WRONG_WEIGHTS = 6, "the weights are not those that the model was built with"
    NOT_READY = 7, "the context has not been initialised"
    WRONG_PROCESSOR = 8, "the model was not compiled for this processor"
    CHECK_FAILED = 9, "a check failed"
    STOPPED = 10, "the run was stopped"


class RankStatus(StatusCode):
    """Further status codes of a program that ranks of MPI run together."""

    WRONG_RANKS = 15, "the communicator has another number of ranks than the mesh"
    OTHER_PROGRAM = 16, "another rank runs another program"
    MPI_FAILED = 17, "a function of MPI failed"
    OVERDUE = 18, "other ranks did not come to a collective in time"


class DeviceStatus(StatusCode):
    """Further status codes of a program on a device that the C file uses through a driver."""

    NO_MEMORY = 15, "the host has no memory left"
    DEVICE_FAILED = 16, "the device or its driver failed"
    BUSY = 20, "another thread's call uses the context"


class StateStatus(StatusCode):
    """A further status code of a program whose state has open sizes."""

    OTHER_SIZES = 19, "the state holds values of a run of other sizes; a reset clears it"


class EntryStatus(StatusCode):
    """Further status codes of a program with entries."""

    NOT_FINITE = 11, "the loss, gradients or running statistics are not finite; nothing was changed"
    NO_LENGTH = 12, "the learning rate depends on the length of the run, which is not set"
    NO_TENSOR = 13, "there is no tensor of this number"
    BAD_NUMBER = 14, "a learning rate or a length is a finite number of at least 0"
