"""The layers of Keras that are not imported, by the reason. This list may only shrink."""

from __future__ import annotations

REFUSED: dict[str, tuple[str, ...]] = {
    "its function is Python code, which is never run": ("Lambda",),
    "text has no numbers": ("StringLookup", "TextVectorization"),
    "it hashes numbers as texts": ("Hashing", "HashedCrossing"),
    "it works on data sets, not on tensors of a model": ("FeatureSpace", "Pipeline"),
    "it changes bounding boxes": ("MaxNumBoundingBoxes",),
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
