"""Cases of layers that change shapes, preprocess, or are functions of keras.ops."""

from __future__ import annotations

from keras import layers as L
from keras import ops
from keras_case import IMAGE, SERIES, SOLID, case, one


def shapes() -> None:
    """Other shapes, borders, joins."""
    one("Flatten", IMAGE, L.Flatten())
    one("Reshape", IMAGE, L.Reshape((6, 28)), L.Reshape((-1, 4)))
    one("Permute", IMAGE, L.Permute((3, 1, 2)))
    one("RepeatVector", (4,), L.RepeatVector(3))
    for rank, shape in ((1, SERIES), (2, IMAGE), (3, SOLID)):
        pairs = [(1, 2)] * rank if rank > 1 else (1, 2)
        one(f"ZeroPadding{rank}D", shape, getattr(L, f"ZeroPadding{rank}D")(pairs))
        one(f"Cropping{rank}D", (7,) * rank + (2,), getattr(L, f"Cropping{rank}D")(pairs))
        one(f"UpSampling{rank}D", shape, getattr(L, f"UpSampling{rank}D")(3))
    one("UpSampling2D_bilinear", IMAGE, L.UpSampling2D((2, 3), interpolation="bilinear"))
    two = [(5, 4), (5, 4)]
    for name in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Subtract"):
        case(name, two, lambda x, y, name=name: getattr(L, name)()([x, y]))
    case("Concatenate_1", [(5, 4), (3, 4)], lambda x, y: L.Concatenate(axis=1)([x, y]))
    case("Dot", [(5, 4), (3, 4)], lambda x, y: L.Dot(axes=2)([x, y]))
    case("Dot_1", [(4,), (4,)], lambda x, y: L.Dot(axes=-1, normalize=True)([x, y]))


def preprocessing() -> None:
    """Preprocessing, and what does nothing outside training."""
    one("Rescaling", IMAGE, L.Rescaling(0.5, 1.0), L.Rescaling([0.5, 1.0, 2.0, 3.0]))
    one(
        "Normalization",
        IMAGE,
        L.Normalization(),
        L.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 4.0, 9.0, 2.0]),
        L.Normalization(mean=1.0, variance=4.0, invert=True),
    )
    one("Resizing", IMAGE, L.Resizing(5, 9), L.Resizing(3, 13, interpolation="nearest"))
    one("CenterCrop", IMAGE, L.CenterCrop(3, 4))
    one("Discretization", (4,), L.Discretization(bin_boundaries=[-1.0, 0.0, 0.5]))
    for layer in (
        L.Dropout(0.5),
        L.GaussianNoise(0.5),
        L.GaussianDropout(0.5),
        L.AlphaDropout(0.5),
        L.ActivityRegularization(0.1),
        L.SpatialDropout2D(0.5),
        L.RandomFlip(),
        L.RandomRotation(0.2),
        L.RandomZoom(0.2),
        L.RandomTranslation(0.1, 0.1),
        L.RandomContrast(0.2),
    ):
        one(type(layer).__name__, IMAGE, layer)


def functions() -> None:
    """Functions of keras.ops on tensors."""
    one("ops_numbers", SERIES, lambda x: (x * 2.0 + 1.0 - x / 3.0) ** 2.0 - (-x))
    one("ops_compare", SERIES, lambda x: ops.where(x > 0.2, x, ops.minimum(x, -0.5)))
    one(
        "ops_reduce",
        SERIES,
        lambda x: [
            f(x, axis=1, keepdims=True)
            for f in (ops.sum, ops.mean, ops.max, ops.min, ops.var, ops.std, ops.logsumexp)
        ],
    )
    one(
        "ops_shape",
        SERIES,
        lambda x: ops.concatenate(
            [ops.transpose(x, (0, 2, 1)), ops.reshape(x, (-1, 4, 5))], axis=-1
        ),
    )
    one("ops_index", SERIES, lambda x: [x[:, 1:3], x[..., None, 0], x[:, ::2, -1]])
    one("ops_split", (6, 4), lambda x: [*ops.split(x, 3, axis=1), *ops.split(x, [1, 4], axis=1)])
    one("ops_more", SERIES, lambda x: ops.squeeze(ops.expand_dims(ops.clip(x, -0.5, 0.5), 1), 1))
    one("ops_activations", SERIES, lambda x: ops.gelu(ops.relu(x)) + ops.silu(x) + ops.softmax(x))
    one("ops_einsum", SERIES, lambda x: ops.einsum("abc,adc->abd", x, x))
    one("ops_stack", SERIES, lambda x: ops.stack([x, ops.flip(x, axis=1)], axis=2))
    one("ops_argmax", SERIES, lambda x: ops.argmax(x, axis=-1))
