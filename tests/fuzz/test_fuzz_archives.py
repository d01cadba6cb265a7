"""Zip archives that are damaged in their directory: zipfile, zlib and lzma raise a dozen kinds of
exceptions, and a reader turns all of them into errors of ours.
"""

from __future__ import annotations

import zipfile
from io import BytesIO
from itertools import islice
from random import Random

import pytest
from harness.attempt import attempt
from harness.target import lacking, seeds, target

SAMPLE = 150  # damages of an archive
WORST = (0, 1, 0x7F, 0xFF)  # bytes: 0xff makes offsets and sizes of 4 bytes huge, 0 makes them none


def directory(data: bytes) -> range:
    """Where in an archive its central directory and end record are."""
    with zipfile.ZipFile(BytesIO(data)) as held:
        return range(held.start_dir, len(data))


@pytest.mark.parametrize(
    "name", ["array_files", "exported_programs", "keras_files", "tensor_files"]
)
def test_a_damaged_directory_is_an_error_of_ours(name: str) -> None:
    if why := lacking(name):
        pytest.skip(why)
    archives = [data for data in islice(seeds(name), 60) if zipfile.is_zipfile(BytesIO(data))]
    archive, random = min(archives, key=len), Random(name)
    reader, places = target(name), directory(archive)
    findings = {}
    for _ in range(SAMPLE):
        damaged = bytearray(archive)
        at, count = random.choice(places), random.choice((1, 2, 4, 8))
        damaged[at : at + count] = bytes([random.choice(WORST)]) * min(count, len(archive) - at)
        if found := attempt(reader, bytes(damaged)):
            findings[found.key] = found.text
    assert not findings, "\n\n".join(findings.values())
