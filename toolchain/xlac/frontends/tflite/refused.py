"""The operators of TensorFlow Lite that are not imported, with the reason. This list may only
shrink.
"""

from __future__ import annotations

STABLEHLO = """
    ABS ADD AND BROADCAST_IN_DIM CASE CBRT CLAMP COMPARE COMPOSITE CONCATENATE CONVERT
    CONVOLUTION COSINE CUSTOM_CALL DIVIDE DOT_GENERAL DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE
    EXPONENTIAL FLOOR GATHER IOTA LOG LOGISTIC MAXIMUM MINIMUM MULTIPLY NEGATE OR PAD POWER
    REDUCE REDUCE_WINDOW REMAINDER RESHAPE RNG_BIT_GENERATOR RSQRT SCATTER SELECT SHIFT_LEFT
    SLICE SORT SUBTRACT TANH TRANSPOSE WHILE
"""
REFUSED: dict[str, tuple[str, ...]] = {
    "text and tables of it have no numbers": (
        "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE",
        "LSH_PROJECTION", "SKIP_GRAM",
    ),
    "the size of the result depends on data": ("UNIQUE", "WHERE"),
    "the kernel draws other numbers at every run": (
        "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM",
    ),
    "converters of today do not write them": (
        "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CONCAT_EMBEDDINGS", "DENSIFY",
        "DILATE", "EMBEDDING_LOOKUP_SPARSE", "LSTM", "REDUCE_WINDOW",
    ),
    "no operators, but marks of the format": (
        "CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES",
    ),
    "StableHLO inside a file: export the model as StableHLO": tuple(
        f"STABLEHLO_{name}" for name in STABLEHLO.split()
    ),
}  # fmt: skip
