"""Folders of images, read by Pillow: a subfolder for each class, numbered in the order of their
names. Images are decoded when they are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlac.support.digest import digest
from xlac.support.extras import needed
from xlac.training.data.column import ArrayColumn, Column, Rows, TrainingInput, fault
from xlac_sdk.dtypes import Array, DType

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
MAX_PIXELS = 1 << 26  # of one image: a small file may claim any size


class ImageTable:
    """A folder with a subfolder of images for each class: columns `image` and `label` (i64)."""

    names = ("image", "label")

    def __init__(self, path: Path, resize: bool = False) -> None:
        self.path, self.resize = path, resize
        self.classes = tuple(sorted(p.name for p in path.iterdir() if p.is_dir()))
        self.files: list[Path] = []
        labels: list[int] = []
        for label, name in enumerate(self.classes):
            some = sorted(p for p in (path / name).iterdir() if p.suffix.lower() in SUFFIXES)
            self.files += some
            labels += [label] * len(some)
        if not self.files:
            hint = f"a folder for each class, with files {', '.join(sorted(SUFFIXES))}"
            raise fault("XL6305", f"{path}: there are no images in folders in it", hint)
        self.labels = np.array(labels, np.int64)

    def columns(
        self, asked: Mapping[str, tuple[TrainingInput, tuple[str, ...]]]
    ) -> dict[str, Column]:
        """The column of images and that of labels. Raises SourceError."""
        columns: dict[str, Column] = {}
        for name, (one, names) in asked.items():
            if names == ("label",):
                columns[name] = ImageLabels(self.labels, str(self.path), files=tuple(self.files))
            else:
                columns[name] = ImageColumn(self.files, one, self.resize)
        return columns


@dataclass(frozen=True, slots=True)
class ImageLabels(ArrayColumn):
    """The class numbers of images. The place of a row is the image's file."""

    files: tuple[Path, ...] = ()

    def place(self, row: int) -> str:
        """The file of the image."""
        return str(self.files[row])


class ImageColumn:
    """Images as rows of an input, [channels, height, width], [height, width, channels] or
    [height, width], with 1, 3 or 4 channels: 0..1 for a float input, 0..255 for u8. `resize` crops
    and scales images of other sizes. Raises SourceError for another kind of input.
    """

    ready = False

    def __init__(self, files: list[Path], one: TrainingInput, resize: bool) -> None:
        with needed("reading images"):
            import PIL.Image  # noqa: F401 reports a missing package before the first step
        self.files, self.input, self.resize, self.rows = files, one, resize, len(files)
        shape = one.row.shape
        sizes = [dim for dim in shape if isinstance(dim, int)]
        dtype = one.type.dtype
        if len(sizes) != len(shape) or not (dtype.is_float or dtype is DType.U8):
            problem = f"images cannot be rows of input '{one.name}', {one.type}"
            raise fault("XL6311", problem, "it takes f32 or u8, and fixed height and width")
        self.first = len(sizes) == 3 and sizes[0] in MODES  # also where both ends are possible
        self.channels = 1 if len(sizes) == 2 else sizes[0 if self.first else -1]
        if len(sizes) not in (2, 3) or self.channels not in MODES:
            problem = f"images cannot be rows of input '{one.name}', {one.type}"
            raise fault("XL6311", problem, "a row is [C, H, W], [H, W, C] or [H, W], C 1, 3 or 4")
        self.size = (sizes[2], sizes[1]) if self.first else (sizes[1], sizes[0])
        self.shape = tuple(sizes)
        self.dtype: np.dtype[Any] = dtype.numpy
        facts = (p.stat() for p in files)
        identities = (f"{p}:{s.st_size}:{s.st_mtime_ns}" for p, s in zip(files, facts, strict=True))
        self.digest = digest("\n".join(identities), str(resize))

    def take(self, rows: Rows) -> Array:
        """Some images, decoded. Raises SourceError for a damaged one or one of another size."""
        wanted = range(rows.start, rows.stop) if isinstance(rows, slice) else rows
        taken = np.empty((len(wanted), *self.shape), self.dtype)
        for at, row in enumerate(wanted):
            taken[at] = self._read(self.files[int(row)])
        return taken

    def _read(self, file: Path) -> Array:
        from PIL import Image, ImageOps

        try:
            with Image.open(file) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise ValueError(f"{image.width} × {image.height} pixels are too many")
                picture = image.convert(MODES[self.channels])
        except Exception as error:  # malformed files raise many kinds of errors in Pillow
            raise fault("XL6311", f"{file}: {error}") from None
        if picture.size != self.size:
            if not self.resize:
                have, want = (" × ".join(map(str, size)) for size in (picture.size, self.size))
                problem = f"{file} has {have} pixels, and input '{self.input.name}' takes {want}"
                raise fault(
                    "XL6311", problem, "--resize cuts and scales images to the input's size"
                )
            picture = ImageOps.fit(picture, self.size)
        array = np.asarray(picture).reshape(self.size[1], self.size[0], self.channels)
        if self.first:
            array = array.transpose(2, 0, 1)
        if self.input.type.dtype is DType.U8:
            return array.reshape(self.shape)
        return (array.astype(np.float32) / np.float32(255)).reshape(self.shape)

    def place(self, row: int) -> str:
        """The file of the image."""
        return str(self.files[row])
