"""The layers of Keras that are not imported, by the reason. This list may only shrink."""

from __future__ import annotations

REFUSED: dict[str, tuple[str, ...]] = {
    "its function is Python code, which is never run": ("Lambda",),
    "text and tables of it have no numbers": (
        "Hashing", "HashedCrossing", "IntegerLookup", "StringLookup", "TextVectorization",
    ),
    "it works on data sets, not on tensors of a model": ("FeatureSpace", "Pipeline"),
    "it changes bounding boxes": ("MaxNumBoundingBoxes",),
    "it chooses its window by chance": ("RandomCrop",),
    "histograms of images are not imported": (
        "AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization", "Equalization",
        "Solarization",
    ),
    "spectrograms are not imported": ("MelSpectrogram", "STFTSpectrogram"),
    "counts of categories are not imported": ("CategoryEncoding",),
    "windows of unequal sizes are not imported": (
        "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D",
        "AdaptiveMaxPooling3D",
    ),
    "it stands in recurrent layers alone": (
        "GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells",
    ),
    "its weights belong to another layer": ("ReversibleEmbedding",),
    "it is a base of other classes": ("Layer", "Wrapper"),
    "its code is not in the file": ("JaxLayer", "FlaxLayer", "NnxLayer", "TFSMLayer",
                                   "TorchModuleWrapper"),
}  # fmt: skip


def reason(kind: str) -> str:
    """Why a class of layers is not imported, "" for one that is not listed."""
    return next((said for said, kinds in REFUSED.items() if kind in kinds), "")
