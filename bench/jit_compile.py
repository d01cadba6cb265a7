"""Functions of TensorFlow compiled by xlac beside `jit_compile=True`, one thread each:
`python bench/jit_compile.py`, in the environment that has TensorFlow (`make test-tf` makes one).
`--answers` instead compares what `xlac.should_compile` answers with the times of each function as
it is, as a tf.function and with jit_compile.
"""

from __future__ import annotations

import math
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import tensorflow as tf
from bursts import best_bursts
from keras import layers as L

import xlac

BURSTS, SECONDS = 15, 0.05
WAYS = ("as it is", "as a graph", "with jit_compile")


def seeds(x: Any, y: Any, z: Any) -> Any:
    """The listing of the seeds."""
    return tf.reduce_sum(x + y * z)


def mlp() -> Any:
    """Three layers, for 32 examples."""
    parts = [L.Dense(256, activation="gelu"), L.Dense(256, activation="gelu"), L.Dense(10)]
    return keras.Sequential([keras.Input((128,)), *parts])


def cnn() -> Any:
    """Convolutions with batch normalization, for an image of 64 x 64."""
    x = keras.Input((64, 64, 3))
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(32, 3, strides=2, padding="same")(x)))
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(64, 3, padding="same")(y)))
    return keras.Model(x, L.Dense(10)(L.GlobalAveragePooling2D()(y)))


def encoder() -> Any:
    """A layer of a transformer of width 128, for 64 tokens."""
    x = keras.Input((64, 128))
    y = L.LayerNormalization()(x + L.MultiHeadAttention(4, 32)(x, x))
    return keras.Model(x, y + L.Dense(128)(L.Dense(512, activation="gelu")(y)))


def chain(x: Any) -> Any:
    """Forty operations, one after another."""
    for _ in range(20):
        x = tf.tanh(x) + 1.0
    return x


def product(x: Any, y: Any) -> Any:
    """A product of matrices."""
    return tf.matmul(x, y)


def total(x: Any, y: Any) -> Any:
    """A sum."""
    return x + y


def rows() -> list[tuple[str, Any, tuple[tuple[int, ...], ...]]]:
    """Names, functions, and the shapes of their arguments."""
    return [
        ("x + y * z, summed", seeds, ((512, 1024),) * 3),
        ("softmax", tf.nn.softmax, ((256, 1000),)),
        ("mlp", mlp(), ((32, 128),)),
        ("cnn", cnn(), ((1, 64, 64, 3),)),
        ("encoder", encoder(), ((1, 64, 128),)),
    ]


def asked() -> list[tuple[str, Any, tuple[tuple[int, ...], ...]]]:
    """More rows, for which it does not always pay to compile."""
    return [
        *rows(),
        ("a sum of numbers", total, ((), ())),
        ("a sum of 4 MB", total, ((1000, 1000),) * 2),
        ("40 small operations", chain, ((10,),)),
        ("40 operations", chain, ((1000, 100),)),
        ("product", product, ((512, 512),) * 2),
        ("gelu", tf.nn.gelu, ((512, 512),)),
    ]


def answers() -> None:
    """Prints times in ms, those in bold where should_compile says to compile."""
    random = np.random.default_rng(0)
    print(f"| function | compiled | {' | '.join(WAYS)} | right |\n|---|---|---|---|---|---|")
    right = questions = 0
    for name, function, shapes in asked():
        drawn = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        tensors = tuple(map(tf.constant, drawn))
        others = [function, tf.function(function), tf.function(function, jit_compile=True)]
        found = [bool(xlac.should_compile(other, tensors)) for other in others]
        calls = [xlac.compile(function, tensors), *others]
        timed = [lambda c=c, t=tensors: c(*t) for c in calls]
        own, *times = best_bursts(timed, BURSTS, SECONDS)
        answered = list(zip(found, times, strict=True))
        good = sum(answer == (own < time) for answer, time in answered)
        right, questions = right + good, questions + len(found)
        cells = [f"**{1e3 * t:.3f}**" if answer else f"{1e3 * t:.3f}" for answer, t in answered]
        line = f"| {name} | {1e3 * own:.3f} | {' | '.join(cells)} | {good} of {len(found)} |"
        print(line, flush=True)
    print(f"\n{right} of {questions} answers are right")


def main() -> None:
    """Prints one of the tables."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    if "--answers" in sys.argv:
        answers()
        return
    random = np.random.default_rng(0)
    print("| function | xlac ms | from TensorFlow ms | jit_compile ms | ratio | apart |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for name, function, shapes in rows():
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        tensors = [tf.constant(array) for array in arrays]
        called = xlac.compile(function, tuple(tensors))
        program: Any = xlac.compile(called.model, threads=1)
        theirs = tf.function(function, jit_compile=True)
        wanted = np.asarray(theirs(*tensors))
        far = float(np.abs(program(*arrays) - wanted).max() / np.abs(wanted).max())

        def own(p: Any = program, a: Any = arrays) -> Any:
            return p(*a)

        def inside(c: Any = called, t: Any = tensors) -> Any:
            return c(*t)

        def other(f: Any = theirs, t: Any = tensors) -> Any:
            return f(*t)

        times = [1e3 * t for t in best_bursts([own, inside, other], BURSTS, SECONDS)]
        ratios.append(times[0] / times[2])
        cells = " | ".join(f"{t:.3f}" for t in times)
        print(f"| {name} | {cells} | {ratios[-1]:.2f} | {far:.0e} |", flush=True)
    print(f"\ngeometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
