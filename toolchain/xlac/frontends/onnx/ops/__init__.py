"""Builders of ONNX operators, a file for each family. Importing the package registers all of those
listed in FAMILIES.
"""

from importlib import import_module

FAMILIES = {
    "": "microsoft refused",
    "attention": "attention fused_attention linear_attention rotary scores",
    "control": "branches loops scans",
    "image": "grid images regions resize suppression",
    "math": "arithmetic linear matrices random reductions signal",
    "ml": "features ngrams trees",
    "nn": (
        "activation convolution deformable dropout fused fused_activation fused_normalization "
        "loss max_pooling normalization pooling recurrent softmax training"
    ),
    "quantized": "products qlinear quantize weight_only",
    "tensor": "casts create data indexing padding placing sequences shape",
}

for _room, _files in FAMILIES.items():
    for _file in _files.split():
        import_module(".".join(filter(None, (__name__, _room, _file))))
