"""All operations, each declared once. Importing this package fills the table `xlac.ir.op.OPS`, in
the order of the reference except where one file needs another.
"""

from importlib import import_module

from xlac.ir.op import OPS

FILES = {
    "control": "control bounded custom_gradient custom_op effect",
    "collective": "shard sums exchanges ranks manual",
    "nn": (
        "attention attention_derivatives cached_attention rotary convolution "
        "transposed_convolution linear einsum loss class_loss batch_normalization normalization "
        "response_norm pooling adaptive_pooling probability recurrent"
    ),
    "reduction": (
        "rounding contraction conv order ranking reduction window window_choice "
        "cumulative named_reductions statistics extremes"
    ),
    "transforms": "fft real_fft dct",
    "linalg": (
        "triangular_solve cholesky lu lu_solve solve inv det slogdet householder qr eigh svd eig "
        "reduced_forms lstsq expm"
    ),
    "scalar": (
        "activation gating arithmetic comparison convert elementary trigonometric logic "
        "minifloat_codes native special gamma"
    ),
    "tensor": (
        "arrange choose masks create dynamic grid gather scatter dynamic_slice leaf place "
        "reorder resize view extend"
    ),
}
"""The files that declare operations, by folder."""

for _folder, _files in FILES.items():
    for _file in _files.split():
        import_module(f"{__name__}.{_folder}.{_file}")

__all__ = ["FILES", "OPS"]
