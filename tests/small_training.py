"""A spec that trains with an open batch, a schedule that needs the length of a run, momentum and
clipping.
"""

TRAINED = """
xlac: 1
model: small
dims: {batch: {min: 1, max: 8, opt: 2}}
inputs: {x: "f32[batch, 3]", y: "f32[batch, 2]"}
graph: {z: {op: linear, in: x, units: 2}}
outputs: [z]
train:
  batch: batch
  init: {seed: 0}
  loss: mean((z - y) * (z - y))
  optimizer: {sgd: {lr: {cosine: {peak: 0.1}}, momentum: 0.9}}
  clip: {norm: 1.0}
"""
