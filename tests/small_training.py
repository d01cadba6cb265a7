"""Specs that train with an open batch and momentum: one with a schedule that needs the length of a
run, and clipping; and one without.
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

DENSE = """
xlac: 1
model: dense
dims: {batch: {max: 8}}
inputs: {x: "f32[batch, 3]", y: "f32[batch, 2]"}
graph: {z: {op: linear, in: x, units: 2}}
outputs: [z]
train:
  batch: batch
  init: {seed: 0}
  loss: mean((z - y) * (z - y))
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""
