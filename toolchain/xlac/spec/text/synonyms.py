"""Names that other frameworks use for operations, attributes or element types; used in hints, where
spelling alone would not find the word.
"""

from __future__ import annotations

OTHERS = {
    # operations
    "linear": "dense fc fully_connected gemm innerproduct inner_product addmm affine",
    "matmul": "bmm mm batch_matmul dot_product @ mv",
    "conv2d": (
        "conv convolution conv_2d convolution2d conv2 conv2dbias depthwise_conv2d separable_conv2d "
        "depthwise depthwise_conv"
    ),
    "conv1d": "conv_1d convolution1d",
    "conv3d": ("conv_3d convolution3d"),
    "conv_transpose2d": (
        "deconv deconv2d deconvolution conv2d_transpose convtranspose2d transposed_conv2d "
        "transposed_conv conv_transpose convtranspose"
    ),
    "batch_norm": (
        "batchnorm batchnorm1d batchnorm2d batchnorm3d bn batchnormalization batch_normalization"
    ),
    "layer_norm": "layernorm ln layernormalization layer_normalization",
    "group_norm": "groupnorm gn",
    "instance_norm": "instancenorm instancenorm2d",
    "rms_norm": "rmsnorm rmsnormalization",
    "local_response_norm": "lrn localresponsenorm",
    "leaky_relu": "lrelu leakyrelu",
    "silu": "swish",
    "hardswish": "hswish hard_swish",
    "hardsigmoid": "hsigmoid hard_sigmoid",
    "sigmoid": "logistic expit",
    "relu": "rectifier rectified",
    "gelu": "gelu_new geluapproximate gelu_tanh",
    "softmax": "softmax2d",
    "log_softmax": "logsoftmax",
    "logsumexp": "lse reduce_logsumexp",
    "dropout": "dropout2d dropout1d droppath",
    "identity": "noop pass_through passthrough",
    "embedding": "embed lookup embedding_lookup embeddings",
    "attention": (
        "sdpa scaled_dot_product_attention multiheadattention multi_head_attention mha "
        "self_attention flash_attention"
    ),
    "max_pool2d": ("maxpool maxpool2d max_pool maxpooling maxpooling2d"),
    "avg_pool2d": ("avgpool avgpool2d avg_pool average_pool averagepool mean_pool"),
    "global_avg_pool": "gap globalaveragepool globalavgpool global_average_pool",
    "global_max_pool": "gmp globalmaxpool",
    "adaptive_avg_pool2d": "adaptiveavgpool adaptive_avg_pool adaptiveavgpool2d",
    "resize": "upsample interpolate upsampling2d resize_bilinear",
    "concat": "cat concatenate join hstack vstack",
    "transpose": "permute",
    "swapaxes": "swapdims",
    "reshape": "view",
    "flatten": "ravel",
    "unsqueeze": "expand_dims expanddims newaxis",
    "broadcast": "broadcast_to expand_as",
    "repeat": "repeat_interleave",
    "slice": "crop narrow strided_slice slice_axis",
    "split": "chunk",
    "pad_mode": "pad_reflect reflectionpad2d zeropad2d mirror_pad",
    "flip": "rev fliplr flipud reverse",
    "take": "index_select gather_axis",
    "take_along_axis": "gather_elements",
    "scatter_elements": "scatter_along_axis put_along_axis",
    "where": "masked_fill select_where cond_select ternary if_else",
    "clip": "hardtanh clamp",
    "sum": "reduce_sum reducesum",
    "mean": "reduce_mean reducemean avg average",
    "prod": "reduce_prod",
    "var": "variance",
    "std": "stddev",
    "norm": "reduce_l2 l2norm",
    "reduce_max": "amax maximum_of",
    "reduce_min": "amin minimum_of",
    "max": "fmax maximum high a_max upper",
    "min": "fmin minimum low a_min lower",
    "all": "reduce_and",
    "any": "reduce_or",
    "sub": "rsub subtract minus",
    "mul": "multiply times",
    "div": "divide truediv",
    "add": "plus",
    "neg": "negate negative minus_of",
    "abs": "absolute magnitude",
    "pow": "power",
    "rem": "remainder fmod",
    "sqrt": "square_root",
    "rsqrt": "inverse_sqrt inv_sqrt",
    "reciprocal": "inverse inv",
    "log": "ln_of natural_log",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "erf_inv": "erfinv",
    "lgamma": "gammaln",
    "cast": "to astype convert as_type type_as",
    "equal": "eq",
    "not_equal": "ne neq",
    "less": "lt",
    "less_equal": "le lte",
    "greater": "gt",
    "greater_equal": "ge gte",
    "arange": "range linspace_int",
    "full": "fill constant_of_shape",
    "one_hot": "onehot",
    "tril": "lower_triangle",
    "triu": "upper_triangle causal_mask",
    "topk": "top_k",
    "cumsum": "cumulative_sum",
    "cumprod": "cumulative_prod cumulative_product",
    "lstm_cell": "lstm",
    "gru_cell": "gru",
    "rnn_cell": "rnn",
    "mse_loss": "mse l2_loss",
    "l1_loss": "mae",
    "cross_entropy": "ce crossentropy crossentropyloss",
    "nll_loss": "nll",
    "binary_cross_entropy": "bce bceloss",
    "huber_loss": "smooth_l1 smooth_l1_loss",
    "rotary_embedding": "rope rotary",
    "pixel_shuffle": "depth_to_space depthtospace",
    "pixel_unshuffle": "space_to_depth spacetodepth",
    "fft": "dft",
    "einsum": "tensordot outer inner kron ger vdot",
    "all_reduce": "psum pmean pmax pmin",
    "slogdet": "logdet",
    "window": "reduce_window",
    "rng_bits": "rand randn random uniform random_uniform",
    "dim_size": "shape size",
    "householder_qr": "geqrf",
    # attributes
    "kernel": "kernel_size kernel_shape ksize window filter_size pool_size",
    "stride": "strides",
    "pad": "padding pads",
    "filters": "out_channels out_features_conv num_filters channels_out",
    "units": "out_features num_units features out_dim hidden output_size",
    "dilation": "dilations dilation_rate",
    "groups": "group feature_group_count num_groups",
    "bias": "use_bias with_bias",
    "axis": "dim axes dims",
    "keepdims": "keep_dim keepdim keep_dims",
    "epsilon": "eps",
    "approximate": "approximation",
    "heads": "num_heads n_heads nhead",
    "p": "drop_prob probability rate",
    "perm": "permutation dims axes_order",
    "dtype": "to type data_type out_dtype",
    "mode": "method interpolation",
    "size": "output_size out_size",
    "scale": "scale_factor",
    "ignore": "ignore_index ignore_class ignore_label",
    "smoothing": "label_smoothing",
    "k": "diagonal",
    "low": "minimum min a_min",
    "high": "maximum max a_max",
    "depth": "num_classes classes",
    "repeats": "reps multiples",
    "parts": "sections chunks num_splits",
    "alpha": "slope negative_slope",
    "causal": "is_causal",
    "in": "input inputs x from",
    "op": "type kind operation layer",
    "ceil_mode": "ceil",
}
"""Names elsewhere, by our names."""

ABSENT = frozenset(
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d argwhere bessel_i0e bilinear "
    "compress conj cov cross cumlogsumexp embedding_bag fill_diagonal frexp gradient hardmax "
    "hardshrink hist igamma igammac iinfo inf isin isnat ldexp linearattention log10 "
    "logcumsumexp logit map max_unpool1d max_unpool2d max_unpool3d median mode modf mvlgamma "
    "nan nanargmax nanargmin nancumprod nancumsum nonzero normal normalizer pi put real renorm "
    "reduce_xor rrelu shrink sinc softmin softshrink xlogy".split()
)
"""Operations elsewhere that have none of ours; what is spelled like them means something else."""

SYNONYMS: dict[str, tuple[str, ...]] = {
    word: tuple(ours for ours, others in OTHERS.items() if word in others.split())
    for words in OTHERS.values()
    for word in words.split()
}
"""Our names by a name elsewhere; a hint shows the first that is valid in its place."""
