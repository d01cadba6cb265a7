"""The op set expresses StableHLO's, has the primitives of the design, and its reference is up to
date.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from xlac.ir.composite import Composite
from xlac.ir.op import OPS, attributes
from xlac.ops import error_bounds, reference

ROOT = Path(__file__).parents[2]
TABLE = yaml.safe_load((Path(__file__).parent / "stablehlo_coverage.yaml").read_text())

# the operations of the dialect, as its specification and its builder list them
STABLEHLO = """
abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2
batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert broadcast
broadcast_in_dim case cbrt ceil cholesky clamp collective_broadcast collective_permute compare
complex composite compute_reshape_shape concatenate constant convert convolution cosine
count_leading_zeros create_token cross-replica-sum cstr_reshapable custom_call divide dot
dot_general dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad
dynamic_reshape dynamic_slice dynamic_update_slice einsum exponential exponential_minus_one fft
floor gather get_dimension_size get_tuple_element if imag infeed iota is_finite log log_plus_one
logistic map maximum minimum multiply negate not optimization_barrier or outfeed pad
partition_id popcnt power real real_dynamic_slice recv reduce reduce_precision reduce_scatter
reduce_window remainder replica_id reshape return reverse rng rng_bit_generator
round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter send
set_dimension_size shift_left shift_right_arithmetic shift_right_logical sign sine slice sort
sqrt subtract tan tanh torch_index_select trace transpose triangular_solve tuple unary_einsum
uniform_dequantize uniform_quantize while xor
""".split()

PRIMITIVES = """
param const iota rng_bits add sub mul div rem pow max min floor round exp expm1 log log1p sin
cos sqrt erf atan2 and or xor shl shr compare select cast bitcast reshape broadcast transpose
slice pad concat gather scatter dyn_slice dyn_update reduce window dot conv cumulative sort pick
cond while scan call custom_call barrier dim_size compact
""".split()

ATTRIBUTES = {
    "dot": "batch_lhs batch_rhs contract_lhs contract_rhs out_dtype",
    "conv": (
        "layout strides low high lhs_dilation rhs_dilation feature_groups batch_groups out_dtype"
    ),
    "gather": (
        "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims "
        "start_index_map index_vector_dim slice_sizes"
    ),
    "scatter": (
        "update_window_dims inserted_window_dims input_batching_dims "
        "scatter_indices_batching_dims scatter_dims_to_operand_dims index_vector_dim "
        "combine body unique"
    ),
    "window": "combine body window strides low high base_dilation window_dilation",
    "scan": "body length carries scanned reverse checkpoint_every",
    "sort": "axis descending keys stable body kept",
    "cumulative": "axis combine reverse exclusive",
    "rng_bits": "algorithm shape dtype",
}


def test_stablehlo_is_covered() -> None:
    assert sorted(TABLE) == sorted(STABLEHLO)
    for name, entry in TABLE.items():
        assert entry["ops"] or entry.get("note"), f"{name} says nothing"
        missing = [op for op in entry["ops"] if op not in OPS]
        assert not missing, f"{name} names {missing}"


def test_the_primitives_are_those_of_the_design() -> None:
    assert sorted(n for n, c in OPS.items() if not issubclass(c, Composite)) == sorted(PRIMITIVES)
    for name, names in ATTRIBUTES.items():
        assert list(attributes(OPS[name]())) == names.split()


def test_the_reference_is_current() -> None:
    text = (ROOT / "docs" / "OPS.md").read_text()
    assert text == reference.markdown(), "run: python -m xlac.ops.reference > docs/OPS.md"


def test_the_bounds_of_the_chapter_are_current() -> None:
    text = (ROOT / "docs" / "SPEC.md").read_text("utf-8")
    assert text == error_bounds.written(text), "run: make docs"
    assert set(error_bounds.FUNCTIONS) <= set(OPS) and set(error_bounds.SUM_OF) <= set(OPS)


def test_every_family_has_a_title() -> None:
    files = {file for names in reference.TITLES for file in names.split()}
    assert {op.__module__.rpartition(".")[2] for op in OPS.values()} == files


@pytest.mark.parametrize("name", sorted(OPS))
def test_describe(name: str) -> None:
    text = reference.describe(OPS[name])
    assert text.startswith(name) and "- operands: " in text
    for attribute in reference.attribute_texts(OPS[name]):
        assert f"`{attribute}`: " in text
