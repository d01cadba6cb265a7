"""Cases of layers for categories, sound and the histograms of images."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import layers as L
from keras_case import IMAGE, case, one

PHOTO = (12, 10, 3)


def categories() -> None:
    """Categories as numbers and vectors."""
    for mode in ("multi_hot", "one_hot", "count"):
        for name, shape in {"": (5,), "_one": (1,), "_deep": (3, 2)}.items():
            case(
                f"CategoryEncoding_{mode}{name}",
                [shape],
                lambda x, mode=mode: L.CategoryEncoding(7, output_mode=mode)(x),
                x0="int32",
            )
        one(f"Discretization_{mode}", (4,), L.Discretization([-1.0, 0.0, 0.5], output_mode=mode))
    case(
        "CategoryEncoding_weights",
        [(5,), (5,)],
        lambda x, w: L.CategoryEncoding(9, output_mode="count")(x, count_weights=w),
        x0="int32",
    )
    case(
        "CategoryEncoding_embedded",
        [(4,)],
        lambda x: L.Dense(3)(L.CategoryEncoding(7)(x)),
        x0="int64",
    )
    case("CategoryEncoding_int", [(4,)], L.CategoryEncoding(7, dtype="int32"), x0="int32")
    bins = L.Discretization(num_bins=4, epsilon=0.01)
    bins.adapt(np.random.default_rng(0).standard_normal(100).astype(np.float32))
    one("Discretization_adapted", (6,), bins)
    _lookups()


def _lookups() -> None:
    """Integers and their places in a vocabulary, which is -1 to 6 of the inputs, or less."""
    words = [5, 2, 3, 0]
    for number, options in enumerate(
        (
            {},
            {"mask_token": 1},
            {"num_oov_indices": 3},
            {"mask_token": 1, "num_oov_indices": 2, "output_mode": "count"},
            {"output_mode": "multi_hot"},
            {"output_mode": "one_hot", "num_oov_indices": 2},
            {"output_mode": "multi_hot", "max_tokens": 9, "pad_to_max_tokens": True},
            {"output_mode": "tf_idf", "idf_weights": [0.5, 0.25, 2.0, 1.5]},
            {
                "output_mode": "tf_idf",
                "idf_weights": [0.5, 0.25, 2.0, 1.5],
                "max_tokens": 8,
                "pad_to_max_tokens": True,
            },
            {"invert": True},
            {"invert": True, "mask_token": 1, "num_oov_indices": 2, "oov_token": -5},
            {"vocabulary": [0, 1, 2, 3, 4, 5, 6], "num_oov_indices": 0},
            {"vocabulary": [6]},
            {"vocabulary": [1, -1, -1, 4, 6], "mask_token": 1, "num_oov_indices": 2},
        )
    ):
        chosen: dict[str, Any] = {"vocabulary": words, **options}
        case(
            f"IntegerLookup_{number}",
            [(6,)],
            lambda x, chosen=chosen: L.IntegerLookup(**chosen)(x),
            x0="int64",
        )
    for mode in ("int", "count", "tf_idf"):
        lookup = L.IntegerLookup(output_mode=mode, mask_token=2)
        lookup.adapt(np.array([[3, 5, 5, 2], [6, 6, 6, 1]]))
        case(f"IntegerLookup_adapted_{mode}", [(6,)], lookup, x0="int64")


def sounds() -> None:
    """Spectrograms, as models for sound begin with."""
    for mode in ("log", "magnitude", "psd", "real", "imag", "angle", "stft"):
        one(f"STFTSpectrogram_{mode}", (96, 2), L.STFTSpectrogram(mode, frame_length=32))
    one(
        "STFTSpectrogram",
        (96, 2),
        L.STFTSpectrogram("magnitude", 24, 10, 32, padding="same", window="hamming"),
        L.STFTSpectrogram("magnitude", 24, 10, 32, expand_dims=True, scaling=None),
        L.STFTSpectrogram("psd", 24, 7, 48, window=None, scaling="spectrum", periodic=True),
    )
    first = {"data_format": "channels_first"}
    one(
        "STFTSpectrogram_first",
        (2, 96),
        L.STFTSpectrogram("magnitude", 24, 10, 32, **first),
        L.STFTSpectrogram("stft", 24, 10, 32, expand_dims=True, padding="same", **first),
    )
    one(
        "MelSpectrogram",
        (512,),
        L.MelSpectrogram(128, 32, num_mel_bins=20),
        L.MelSpectrogram(
            128, 50, 100, window="hamming", top_db=20.0, ref_power=3.0, num_mel_bins=24
        ),
        L.MelSpectrogram(128, 32, 99, power_to_db=False, mag_exp=1.0, num_mel_bins=16),
        L.MelSpectrogram(
            100,
            40,
            99,
            window=None,
            mag_exp=1.5,
            min_freq=100.0,
            max_freq=3000.0,
            num_mel_bins=10,
            sampling_rate=8000,
        ),
    )
    one("MelSpectrogram_default", (2000,), L.MelSpectrogram())


def histograms() -> None:
    """Layers that change images by their values; inputs are about a standard deviation of 1."""
    name = "ContrastLimitedAdaptiveHistogramEqualization"
    clahe = getattr(L, name)
    one("AutoContrast", PHOTO, L.AutoContrast(), L.AutoContrast(value_range=(-1, 1)))
    case("AutoContrast_flat", [PHOTO], lambda x: L.AutoContrast()(x * 0.0 + 3.0))
    case(
        "AutoContrast_first",
        [(3, 12, 10)],
        lambda x: L.AutoContrast(data_format="channels_first")(x),
    )
    one(
        name,
        PHOTO,
        clahe(value_range=(-2, 2), tile_grid_size=(3, 2)),
        clahe(value_range=(-3.0, 3.0), tile_grid_size=(2, 3), clip_limit=0.0),
        clahe(value_range=(-2, 2), tile_grid_size=(5, 4), clip_limit=1.5),
    )
    case(f"{name}_bytes", [PHOTO], lambda x: clahe(tile_grid_size=(4, 3))(x * 60.0 + 100.0))
    case(
        f"{name}_first",
        [(3, 12, 10)],
        lambda x: clahe((-2, 2), tile_grid_size=(2, 2), data_format="channels_first")(x),
    )
    one("Solarization", PHOTO, L.Solarization(0.3, 0.4))
    one("RandomCrop", PHOTO, L.RandomCrop(12, 10))


def ratios() -> None:
    """Sizes of images that keep the ratio of their sides."""
    one(
        "Resizing_ratio",
        IMAGE,
        L.Resizing(5, 3, crop_to_aspect_ratio=True),
        L.Resizing(10, 4, crop_to_aspect_ratio=True, interpolation="nearest"),
        L.Resizing(5, 9, pad_to_aspect_ratio=True, fill_value=0.5),
        L.Resizing(9, 4, pad_to_aspect_ratio=True),
        L.Resizing(4, 3, antialias=True),
        L.Resizing(3, 9, antialias=True, data_format="channels_first"),
    )
    one("CenterCrop_larger", IMAGE, L.CenterCrop(9, 4), L.CenterCrop(3, 12), L.CenterCrop(9, 9))
    one("CenterCrop_first", (3, 8, 9), L.CenterCrop(5, 12, data_format="channels_first"))


def windows() -> None:
    """Windows that divide axes evenly and unevenly; TensorFlow's process ends by a division by zero
    where one is to have the largest element of a whole axis.
    """
    sizes = {1: (11,), 2: (7, 9), 3: (5, 6, 7)}
    for rank, shape in sizes.items():
        for kind in ("Average", "Max"):
            layer = getattr(L, f"Adaptive{kind}Pooling{rank}D")
            one(
                f"Adaptive{kind}Pooling{rank}D_uneven",
                (*shape, 3),
                *(layer(size) for size in (2, 3, 5, shape[:rank])),
                *([layer(1)] if kind == "Average" else []),
                layer((4, 3, 2)[:rank]),
            )
            one(
                f"Adaptive{kind}Pooling{rank}D_first",
                (3, *shape),
                layer((3, 2, 4)[:rank], data_format="channels_first"),
            )
