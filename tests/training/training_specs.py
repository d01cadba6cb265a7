"""Specs that train: a transformer of two blocks, a layer of BERT, a scanned LSTM, residual
convolutions, an encoder and decoder with skips.
"""

GPT = """\
xlac: 1
model: gpt
dims: {batch: {max: 8}}
params: {width: 16, heads: 2, words: 11, length: 7}
weights: {init: {seed: 0, tensors: {place: {scheme: normal, std: 0.5}}}}
inputs: {ids: "i64[batch, 7]", label: "i64[batch, 7]"}
blocks:
  layer:
    inputs: [x]
    graph:
      n1: {op: layer_norm, in: x}
      q: {op: linear, in: n1, units: $width}
      k: {op: linear, in: n1, units: $width}
      v: {op: linear, in: n1, units: $width}
      a: {op: attention, in: {q: q, k: k, v: v}, heads: $heads, causal: true}
      o: {op: linear, in: a, units: $width}
      r: x + o
      n2: {op: layer_norm, in: r}
      up: {op: linear, in: n2, units: "${4 * width}"}
      down: {op: linear, in: gelu(up), units: $width}
      y: r + down
    outputs: [y]
graph:
  token: {op: embedding, in: ids, count: $words, dim: $width, dtype: f64}
  place: {op: weight, type: "f64[length, width]"}
  blocks: {block: layer, in: token + place, repeat: 2}
  end: {op: layer_norm, in: blocks}
  out: {op: linear, in: end, units: $words}
outputs: [out]
train:
  batch: batch
  loss: mean(softmax_cross_entropy(out, label))
  optimizer: {adamw: {lr: 0.01}}
  clip: {norm: 1.0}
"""

LSTM = """\
xlac: 1
model: lstm
dims: {batch: {max: 8}}
weights: {init: {seed: 0, scheme: xavier, tensors: {"*.bias": {scheme: normal, std: 0.1}}}}
inputs: {x: "f64[batch, 6, 4]", y: "f64[batch, 6, 3]"}
graph:
  zero: f64(zeros([batch, 5]))
  rnn:
    scan: {x_t: x}
    axis: 1
    carry: {h: {init: zero}, c: {init: zero}}
    body:
      gates: {op: linear, in: [x_t, h], units: 20}
      i, f, g, o: split(gates, parts=4, axis=-1)
      c1: sigmoid(f) * c + sigmoid(i) * tanh(g)
      h1: sigmoid(o) * tanh(c1)
    next: {h: h1, c: c1}
    stack: {y: h1}
  out: {op: linear, in: rnn.y, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean((out - y) ** 2.0)
  optimizer: {rmsprop: {lr: 0.01}}
"""

RESIDUAL = """\
xlac: 1
model: residual
dims: {batch: {max: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 3, 8, 8]", y: "i64[batch]"}
blocks:
  part:
    params: {out: null, stride: 1}
    inputs: [x]
    graph:
      c1: {op: conv2d, in: x, filters: $out, kernel: 3, stride: $stride, pad: 1, bias: false}
      n1: {op: batch_norm, in: c1}
      c2: {op: conv2d, in: relu(n1), filters: $out, kernel: 3, pad: 1, bias: false}
      n2: {op: batch_norm, in: c2}
      s: {op: conv2d, in: x, filters: $out, kernel: 1, stride: $stride, bias: false}
      y: relu(n2 + s)
    outputs: [y]
graph:
  a: {block: part, in: x, with: {out: 4}}
  b: {block: part, in: a, with: {out: 6, stride: 2}}
  p: {op: avg_pool2d, in: b, kernel: 2, stride: 2}
  out: {op: linear, in: "flatten(p, axis=1)", units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 0.05, momentum: 0.9, weight_decay: 0.01}}
"""

UNET = """\
xlac: 1
model: unet
dims: {batch: {max: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 2, 8, 8]", y: "f64[batch, 1, 8, 8]"}
graph:
  down: {op: conv2d, in: x, filters: 4, kernel: 3, pad: 1}
  d: relu(down)
  small: {op: max_pool2d, in: d, kernel: 2, stride: 2}
  middle: {op: conv2d, in: small, filters: 6, kernel: 3, pad: 1}
  m: silu(middle)
  up: {op: conv_transpose2d, in: m, filters: 4, kernel: 2, stride: 2}
  both: concat(up, d, axis=1)
  out: {op: conv2d, in: both, filters: 1, kernel: 3, pad: 1}
outputs: [out]
train:
  batch: batch
  loss: mean(abs(out - y))
  optimizer: {adam: {lr: 0.01}}
"""

DENSE = """\
xlac: 1
model: dense
dims: {batch: {max: 64, opt: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f64[batch, 5]", y: "i64[batch]"}
graph:
  h: {op: linear, in: x, units: 7}
  d: {op: dropout, in: tanh(h), p: 0.4}
  out: {op: linear, in: d, units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y)) + 0.01 * sum(h.weight * h.weight)
  metrics: {right: mean(f64(argmax(out, axis=-1) == y))}
  optimizer: {adamw: {lr: 0.01}}
  clip: {norm: 0.5}
  frozen_mode: [d]
"""
COUNTED = "{sum: sum(softmax_cross_entropy(out, y) * f64(y > 0)), count: sum(f64(y > 0))}"
NORMED = """\
xlac: 1
model: normed
dims: {batch: {max: 64}}
weights: {init: {seed: 1}}
inputs: {x: "f64[batch, 3, 5, 5]", y: "i64[batch]"}
graph:
  c: {op: conv2d, in: x, filters: 4, kernel: 3, pad: 1}
  n: {op: batch_norm, in: c}
  out: {op: linear, in: "flatten(relu(n), axis=1)", units: 3}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""

BERT = """\
xlac: 1
model: bert
dims: {batch: {max: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 7, 16]", y: "f64[batch, 7, 16]"}
graph:
  q: {op: linear, in: x, units: 16}
  k: {op: linear, in: x, units: 16}
  v: {op: linear, in: x, units: 16}
  a: {op: attention, in: {q: q, k: k, v: v}, heads: 2}
  o: {op: linear, in: a, units: 16}
  n1: {op: layer_norm, in: x + o}
  up: {op: linear, in: n1, units: 64}
  down: {op: linear, in: gelu(up), units: 16}
  n2: {op: layer_norm, in: n1 + down}
outputs: [n2]
train:
  batch: batch
  loss: mean((n2 - y) ** 2.0)
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""
