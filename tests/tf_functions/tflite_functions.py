"""Functions of TensorFlow of the kinds that run on phones, for the converter of TensorFlow Lite:
audio front ends, detection, loops and branches, indexing. They are listed beside the Keras models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tflite_models import Made, model


def function(*shapes: tuple[int, ...]) -> Callable[[Callable[..., Any]], Callable[[], Made]]:
    """Lists a function of f32 tensors of these shapes as a model."""

    def listed(body: Callable[..., Any]) -> Callable[[], Made]:
        def build() -> Made:
            specs = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
            return tf.function(body).get_concrete_function(*specs), list(shapes)

        build.__name__ = body.__name__
        return model(build)

    return listed


@function((1, 1024))
def spectrogram(x: Any) -> Any:
    return tf.abs(tf.signal.stft(x, frame_length=256, frame_step=128, fft_length=256))


@function((1, 1024))
def mel_front_end(x: Any) -> Any:
    power = tf.square(tf.abs(tf.signal.stft(x, frame_length=256, frame_step=128)))
    mel = tf.matmul(power, tf.signal.linear_to_mel_weight_matrix(20, 129, 8000, 60.0, 3800.0))
    angles = tf.range(0.5, 20.0)[:, None] * tf.range(13.0)[None] * (3.14159265 / 20)
    return tf.matmul(tf.math.log(mel + 1e-6), tf.cos(angles))


@function((30, 4), (30,))
def detection(boxes: Any, scores: Any) -> Any:
    corners = tf.concat([boxes[:, :2], boxes[:, :2] + tf.abs(boxes[:, 2:])], 1)
    chosen, count = tf.raw_ops.NonMaxSuppressionV4(
        boxes=corners,
        scores=scores,
        max_output_size=10,
        iou_threshold=0.4,
        score_threshold=-1.0,
        pad_to_max_output_size=True,
    )
    return tf.gather(corners, chosen), tf.gather(scores, chosen), count


@function((30, 4), (30,))
def soft_detection(boxes: Any, scores: Any) -> Any:
    corners = tf.concat([boxes[:, :2], boxes[:, :2] + tf.abs(boxes[:, 2:])], 1)
    return tf.raw_ops.NonMaxSuppressionV5(
        boxes=corners,
        scores=tf.abs(scores),
        max_output_size=10,
        iou_threshold=0.5,
        score_threshold=0.1,
        soft_nms_sigma=0.3,
        pad_to_max_output_size=True,
    )


@function((1, 20, 4), (20, 4))
def anchors(deltas: Any, boxes: Any) -> Any:
    centre = deltas[..., :2] * 0.1 * boxes[:, 2:] + boxes[:, :2]
    size = tf.exp(deltas[..., 2:] * 0.2) * boxes[:, 2:]
    best = tf.math.top_k(tf.reduce_max(deltas, -1), 5)
    return tf.gather(tf.concat([centre - size / 2, centre + size / 2], -1), best.indices[0], axis=1)


@function((1, 12, 12, 5))
def key_points(heat: Any) -> Any:
    flat = tf.reshape(heat, (1, 144, 5))
    place = tf.argmax(flat, 1, tf.int32)
    soft = tf.nn.softmax(flat, 1)
    rows = tf.reduce_sum(soft * tf.reshape(tf.repeat(tf.range(12.0), 12), (1, 144, 1)), 1)
    return place // 12, place % 12, rows


@function((2, 9))
def beam(logits: Any) -> Any:
    values, tokens = tf.math.top_k(tf.nn.log_softmax(logits), 3)
    best = tf.math.top_k(tf.reshape(values, (1, 6)), 2)
    return best.values, tf.gather(tf.reshape(tokens, (6,)), best.indices[0])


@function((3, 3), (3,))
def iteration(a: Any, b: Any) -> Any:
    def step(n: Any, x: Any) -> Any:
        return n + 1, x + 0.1 * (b - tf.linalg.matvec(a, x))

    return tf.while_loop(lambda n, x: n < 20, step, [tf.constant(0), tf.zeros_like(b)])[1]


@function((4, 5))
def branches(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x) * 2.0, lambda: tf.abs(x) - 1.0)


@function((5, 6))
def normalized_scan(x: Any) -> Any:
    total = tf.cumsum(x, 0)
    return total / (1.0 + tf.abs(tf.cumsum(x, 1, reverse=True))), tf.reverse(total, [1])


@function((6, 4))
def indexed(x: Any) -> Any:
    places = tf.constant([[0], [2], [2], [5]])
    taken = tf.gather_nd(x, places)
    added = tf.scatter_nd(places, taken, (6, 4))
    return added, tf.math.unsorted_segment_sum(x, tf.constant([0, 1, 0, 2, 1, 0]), 3)


@function((1, 8, 8, 3))
def resized(x: Any) -> Any:
    big = tf.image.resize(x, (13, 11))
    near = tf.image.resize(big, (7, 5), "nearest")
    return tf.pad(near, [[0, 0], [1, 2], [2, 1], [0, 0]], "REFLECT")
