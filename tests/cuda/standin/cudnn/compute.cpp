// The arithmetic of operation graphs: in double, each value rounded to its type as it is written.
#include <cmath>
#include <limits>

#include "../libraries/numbers.h"
#include "cudnn.h"

namespace {

using Index = std::vector<int64_t>;

// A tensor's numbers, in the order of its axes.
struct Array {
    Index extents;
    std::vector<double> values;

    double at(const Index &index) const {  // axes of one element are repeated
        int64_t place = 0;
        for (size_t axis = 0; axis < extents.size(); ++axis) place = place * extents[axis] + (extents[axis] == 1 ? 0 : index[axis]);
        return values[place];
    }
};

numbers::Kind kind_of(int type) { return type == DATA_HALF ? numbers::Kind::f16 : type == DATA_BFLOAT16 ? numbers::Kind::bf16 : numbers::Kind::f32; }

// Does something at every index of some extents, the last axis first.
template <typename Do>
void each(const Index &extents, Do body) {
    Index at(extents.size(), 0);
    for (bool more = true; more;) {
        body(at);
        more = false;
        for (size_t axis = extents.size(); axis-- > 0 && !more;) {
            more = ++at[axis] < extents[axis];
            if (!more) at[axis] = 0;
        }
    }
}

int64_t place(const Tensor &tensor, const Index &at) {
    int64_t found = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) found += at[axis] * tensor.strides[axis];
    return found;
}

class Graph {
  public:
    explicit Graph(const Work &work) : work(work) {}

    void run() {
        for (const Shared &operation : work.graph->values.at(OPERATIONGRAPH_OPS).descriptors) write(Tensor(*result(*operation)), of(*operation));
    }

  private:
    const Work &work;
    std::map<int64_t, Array> known;

    Array read(const Shared &descriptor) {
        Tensor tensor(*descriptor);
        auto found = known.find(tensor.id);
        if (found != known.end()) return found->second;
        Array array{tensor.extents, {}};
        if (tensor.by_value) {
            array.values.push_back(work.numbers.at(tensor.id));
            return array;
        }
        const char *from = work.places.at(tensor.id);
        each(tensor.extents, [&](const Index &at) { array.values.push_back(numbers::load(from, kind_of(tensor.type), place(tensor, at))); });
        return array;
    }

    void write(const Tensor &tensor, Array array) {
        char *to = tensor.is_virtual ? nullptr : work.places.at(tensor.id);
        size_t number = 0;
        each(tensor.extents, [&](const Index &at) {
            char rounded[4];
            double &value = array.values[number++];
            numbers::store(to ? to : rounded, kind_of(tensor.type), to ? place(tensor, at) : 0, value);
            if (!to) value = numbers::load(rounded, kind_of(tensor.type), 0);
        });
        known[tensor.id] = std::move(array);
    }

    Array of(const Descriptor &operation) {
        switch (operation.kind) {
            case OPERATION_CONVOLUTION_FORWARD: return convolution(operation);
            case OPERATION_POINTWISE: return pointwise(operation);
            case OPERATION_MATMUL: return product(operation);
            case OPERATION_SOFTMAX: return softmax(operation);
            default: return band(operation);
        }
    }

    Array convolution(const Descriptor &operation) {
        Array x = read(operation.other(FORWARD_X)), w = read(operation.other(FORWARD_W));
        const Descriptor &how = *operation.other(FORWARD_CONV_DESC);
        if (work.tf32)
            for (Array *side : {&x, &w})
                for (double &value : side->values) value = numbers::tf32(static_cast<float>(value));
        Array y{operation.other(FORWARD_Y)->list(TENSOR_DIMENSIONS), {}};
        int64_t groups = x.extents[1] / w.extents[1], filters = w.extents[0] / groups;
        Index taps(w.extents.begin() + 1, w.extents.end());
        each(y.extents, [&](const Index &at) {
            double sum = 0;
            each(taps, [&](const Index &tap) {
                Index from = {at[0], at[1] / filters * w.extents[1] + tap[0]}, of = {at[1], tap[0]};
                bool inside = true;
                for (size_t axis = 0; axis + 2 < at.size(); ++axis) {
                    int64_t seen = at[axis + 2] * how.list(CONVOLUTION_FILTER_STRIDES)[axis] - how.list(CONVOLUTION_PRE_PADDINGS)[axis] +
                                   tap[axis + 1] * how.list(CONVOLUTION_DILATIONS)[axis];
                    inside = inside && seen >= 0 && seen < x.extents[axis + 2];
                    from.push_back(seen);
                    of.push_back(tap[axis + 1]);
                }
                if (inside) sum += x.at(from) * w.at(of);
            });
            y.values.push_back(sum);
        });
        return y;
    }

    Array pointwise(const Descriptor &operation) {
        const Descriptor &how = *operation.other(PW_DESCRIPTOR);
        int64_t mode = how.number(POINTWISE_MODE);
        bool keeps = how.number(POINTWISE_NAN_PROPAGATION, 0);
        Array x = read(operation.other(PW_XDESC)), b = operation.has(PW_BDESC) ? read(operation.other(PW_BDESC)) : Array{};
        Array y{x.extents, {}};
        each(x.extents, [&](const Index &at) {
            double value = x.at(at);
            if (mode == PW_ADD) value += b.at(at);
            if (mode == PW_MUL) value *= b.at(at);
            if (mode == PW_GELU_TANH) value = numbers::gelu(value);
            if (mode == PW_RELU) value = keeps ? numbers::relu(value) : std::fmax(value, 0);
            y.values.push_back(value);
        });
        return y;
    }

    Array product(const Descriptor &operation) {
        Array a = read(operation.other(MATMUL_ADESC)), b = read(operation.other(MATMUL_BDESC));
        Array c{operation.other(MATMUL_CDESC)->list(TENSOR_DIMENSIONS), {}};
        int64_t shared = a.extents[1] / b.extents[1];
        each(c.extents, [&](const Index &at) {
            double sum = 0;
            for (int64_t k = 0; k < a.extents[3]; ++k) sum += a.at({at[0], at[1], at[2], k}) * b.at({at[0], at[1] / shared, k, at[3]});
            c.values.push_back(sum);
        });
        return c;
    }

    Array softmax(const Descriptor &operation) {
        Array x = read(operation.other(SOFTMAX_XDESC));
        size_t length = x.extents.back();
        for (size_t row = 0; row < x.values.size(); row += length) {
            double top = -std::numeric_limits<double>::infinity(), total = 0;
            for (size_t k = 0; k < length; ++k) top = std::fmax(top, x.values[row + k]);
            for (size_t k = 0; k < length; ++k) total += x.values[row + k] = std::exp(x.values[row + k] - top);
            for (size_t k = 0; k < length; ++k) x.values[row + k] /= total;
        }
        return x;
    }

    // Keys up to a query are seen, the two counted from their ends.
    Array band(const Descriptor &operation) {
        Array x = read(operation.other(BAND_XDESC));
        double gap = read(operation.other(BAND_SEQ_LEN_KVDESC)).values[0] - read(operation.other(BAND_SEQ_LEN_QDESC)).values[0];
        double hidden = read(operation.other(BAND_BDESC)).values[0];
        size_t number = 0;
        each(x.extents, [&](const Index &at) {
            double &value = x.values[number++];
            if (at[2] + gap < at[3]) value = hidden;
        });
        return x;
    }
};

}  // namespace

void compute(const Work &work) {
    std::memset(work.workspace, 0xcd, work.workspace_bytes);  // whoever has something there sees that it is used
    Graph(work).run();
}
