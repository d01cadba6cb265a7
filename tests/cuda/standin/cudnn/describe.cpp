// What descriptors are made of: which attributes each has, and when it is complete.
#include <algorithm>

#include "cudnn.h"

namespace {

struct Rule {
    int attribute, type;
    int64_t least, most;  // elements
    bool required;
    int kind = -1;  // of the descriptors that it refers to
};

constexpr int64_t AXES = 8, MANY = 64;

const std::map<int, std::vector<Rule>> RULES = {
    {TENSOR, {{TENSOR_UNIQUE_ID, T_INT64, 1, 1, true}, {TENSOR_DATA_TYPE, T_DATA_TYPE, 1, 1, true}, {TENSOR_BYTE_ALIGNMENT, T_INT64, 1, 1, true},
              {TENSOR_DIMENSIONS, T_INT64, 3, AXES, true}, {TENSOR_STRIDES, T_INT64, 3, AXES, true}, {TENSOR_IS_VIRTUAL, T_BOOLEAN, 1, 1, false},
              {TENSOR_IS_BY_VALUE, T_BOOLEAN, 1, 1, false}}},
    {POINTWISE, {{POINTWISE_MODE, T_POINTWISE_MODE, 1, 1, true}, {POINTWISE_MATH_PREC, T_DATA_TYPE, 1, 1, true},
                 {POINTWISE_NAN_PROPAGATION, T_NAN_PROPAGATION, 1, 1, false}}},
    {CONVOLUTION, {{CONVOLUTION_COMP_TYPE, T_DATA_TYPE, 1, 1, true}, {CONVOLUTION_CONV_MODE, T_CONVOLUTION_MODE, 1, 1, true},
                   {CONVOLUTION_SPATIAL_DIMS, T_INT64, 1, 1, true}, {CONVOLUTION_DILATIONS, T_INT64, 2, 3, true},
                   {CONVOLUTION_FILTER_STRIDES, T_INT64, 2, 3, true}, {CONVOLUTION_PRE_PADDINGS, T_INT64, 2, 3, true},
                   {CONVOLUTION_POST_PADDINGS, T_INT64, 2, 3, true}}},
    {MATMUL, {{MATMUL_COMP_TYPE, T_DATA_TYPE, 1, 1, true}}},
    {OPERATION_CONVOLUTION_FORWARD, {{FORWARD_X, T_DESCRIPTOR, 1, 1, true, TENSOR}, {FORWARD_W, T_DESCRIPTOR, 1, 1, true, TENSOR},
                                     {FORWARD_Y, T_DESCRIPTOR, 1, 1, true, TENSOR}, {FORWARD_CONV_DESC, T_DESCRIPTOR, 1, 1, true, CONVOLUTION},
                                     {FORWARD_ALPHA, T_FLOAT, 1, 1, true}, {FORWARD_BETA, T_FLOAT, 1, 1, true}}},
    {OPERATION_POINTWISE, {{PW_XDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {PW_BDESC, T_DESCRIPTOR, 1, 1, false, TENSOR},
                           {PW_YDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {PW_DESCRIPTOR, T_DESCRIPTOR, 1, 1, true, POINTWISE}}},
    {OPERATION_MATMUL, {{MATMUL_ADESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {MATMUL_BDESC, T_DESCRIPTOR, 1, 1, true, TENSOR},
                        {MATMUL_CDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {MATMUL_DESC, T_DESCRIPTOR, 1, 1, true, MATMUL}}},
    {OPERATION_SOFTMAX, {{SOFTMAX_XDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {SOFTMAX_YDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}}},
    {OPERATION_DIAGONAL_BAND_MASK, {{BAND_XDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {BAND_SEQ_LEN_KVDESC, T_DESCRIPTOR, 1, 1, true, TENSOR},
                                    {BAND_SEQ_LEN_QDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {BAND_BDESC, T_DESCRIPTOR, 1, 1, true, TENSOR},
                                    {BAND_YDESC, T_DESCRIPTOR, 1, 1, true, TENSOR}, {BAND_COMPARISON_MODE, T_POINTWISE_MODE, 1, 1, true}}},
    {OPERATIONGRAPH, {{OPERATIONGRAPH_HANDLE, T_HANDLE, 1, 1, true}, {OPERATIONGRAPH_OPS, T_DESCRIPTOR, 1, MANY, true}}},
    {ENGINEHEUR, {{ENGINEHEUR_OPERATION_GRAPH, T_DESCRIPTOR, 1, 1, true, OPERATIONGRAPH}, {ENGINEHEUR_MODE, T_HEUR_MODE, 1, 1, true}}},
    {ENGINE, {{ENGINE_OPERATION_GRAPH, T_DESCRIPTOR, 1, 1, true, OPERATIONGRAPH}, {ENGINE_GLOBAL_INDEX, T_INT64, 1, 1, true}}},
    {KNOB_CHOICE, {{KNOB_CHOICE_KNOB_TYPE, T_KNOB_TYPE, 1, 1, true}, {KNOB_CHOICE_KNOB_VALUE, T_INT64, 1, 1, true}}},
    {ENGINECFG, {{ENGINECFG_ENGINE, T_DESCRIPTOR, 1, 1, true, ENGINE}, {ENGINECFG_KNOB_CHOICES, T_DESCRIPTOR, 1, MANY, false, KNOB_CHOICE}}},
    {EXECUTION_PLAN, {{EXECUTION_PLAN_HANDLE, T_HANDLE, 1, 1, true}, {EXECUTION_PLAN_ENGINE_CONFIG, T_DESCRIPTOR, 1, 1, true, ENGINECFG}}},
    {VARIANT_PACK, {{VARIANT_PACK_UNIQUE_IDS, T_INT64, 1, MANY, true}, {VARIANT_PACK_DATA_POINTERS, T_VOID_PTR, 1, MANY, true},
                    {VARIANT_PACK_WORKSPACE, T_VOID_PTR, 1, 1, true}}},
};

using Extents = std::vector<int64_t>;

const Extents &extents(const Shared &tensor) { return tensor->list(TENSOR_DIMENSIONS); }

std::string of_tensor(const Descriptor &made) {
    Tensor tensor(made);
    if (tensor.extents.size() != tensor.strides.size()) return "a tensor has as many strides as extents";
    auto positive = [](int64_t n) { return n > 0; };
    if (!std::all_of(tensor.extents.begin(), tensor.extents.end(), positive)) return "an extent of a tensor is not positive";
    if (!std::all_of(tensor.strides.begin(), tensor.strides.end(), positive)) return "a stride of a tensor is not positive";
    if (tensor.is_virtual && tensor.by_value) return "what is never in memory is not given by the host";
    if (tensor.by_value && tensor.elements() != 1) return "the host gives one number";
    if (!element_bytes(tensor.type)) return "no such type";
    if (tensor.alignment < element_bytes(tensor.type) || tensor.alignment & (tensor.alignment - 1)) return "no such alignment";
    return "";
}

std::string of_convolution(const Descriptor &made) {
    size_t rank = made.number(CONVOLUTION_SPATIAL_DIMS);
    for (int attribute : {CONVOLUTION_DILATIONS, CONVOLUTION_FILTER_STRIDES, CONVOLUTION_PRE_PADDINGS, CONVOLUTION_POST_PADDINGS})
        if (made.list(attribute).size() != rank) return "a convolution has a number for each spatial axis";
    if (made.number(CONVOLUTION_COMP_TYPE) != DATA_FLOAT) return "sums are f32";
    return made.number(CONVOLUTION_CONV_MODE) == 1 ? "" : "the kernel would be turned round";
}

std::string of_forward(const Descriptor &made) {
    const Extents &x = extents(made.other(FORWARD_X)), &w = extents(made.other(FORWARD_W)), &y = extents(made.other(FORWARD_Y));
    Shared described = made.other(FORWARD_CONV_DESC);
    size_t rank = described->number(CONVOLUTION_SPATIAL_DIMS);
    if (x.size() != rank + 2 || w.size() != rank + 2 || y.size() != rank + 2) return "tensors have two axes besides the spatial ones";
    if (made.real(FORWARD_ALPHA) != 1 || made.real(FORWARD_BETA) != 0) return "no engine scales convolutions";
    if (y[0] != x[0] || y[1] != w[0] || x[1] % w[1] || w[0] % (x[1] / w[1])) return "batch, channels or filters do not agree";
    for (size_t axis = 0; axis < rank; ++axis) {
        int64_t reach = (w[axis + 2] - 1) * described->list(CONVOLUTION_DILATIONS)[axis] + 1;
        int64_t room = x[axis + 2] + described->list(CONVOLUTION_PRE_PADDINGS)[axis] + described->list(CONVOLUTION_POST_PADDINGS)[axis];
        if (room < reach || y[axis + 2] != (room - reach) / described->list(CONVOLUTION_FILTER_STRIDES)[axis] + 1) return "the result has another extent";
    }
    return "";
}

std::string of_pointwise(const Descriptor &made) {
    int64_t mode = made.other(PW_DESCRIPTOR)->number(POINTWISE_MODE);
    bool two = mode == PW_ADD || mode == PW_MUL;
    if (!two && mode != PW_RELU && mode != PW_GELU_TANH) return "no such operation";
    if (two != made.has(PW_BDESC)) return two ? "the second operand is missing" : "there is one operand";
    const Extents &x = extents(made.other(PW_XDESC)), &y = extents(made.other(PW_YDESC));
    if (x != y) return "operand and result have different extents";
    if (!two) return "";
    const Extents &b = extents(made.other(PW_BDESC));
    if (b.size() != x.size()) return "operands have different ranks";
    for (size_t axis = 0; axis < x.size(); ++axis)
        if (b[axis] != x[axis] && b[axis] != 1) return "the second operand does not repeat";
    return "";
}

std::string of_matmul(const Descriptor &made) {
    const Extents &a = extents(made.other(MATMUL_ADESC)), &b = extents(made.other(MATMUL_BDESC)), &c = extents(made.other(MATMUL_CDESC));
    if (a.size() != 4 || b.size() != 4 || c.size() != 4) return "attention has four axes";
    if (a[3] != b[2] || c[2] != a[2] || c[3] != b[3] || a[0] != b[0] || c[0] != a[0] || c[1] != a[1] || a[1] % b[1]) return "matrices do not agree";
    return "";
}

std::string of_band(const Descriptor &made) {
    if (made.number(BAND_COMPARISON_MODE) != PW_CMP_GE) return "no such comparison";
    for (auto [attribute, type] : {std::pair{BAND_SEQ_LEN_KVDESC, DATA_INT32}, {BAND_SEQ_LEN_QDESC, DATA_INT32}, {BAND_BDESC, DATA_FLOAT}}) {
        Tensor number(*made.other(attribute));
        if (!number.by_value || number.type != type) return "a band's numbers are the host's: two of i32, one of f32";
    }
    return extents(made.other(BAND_XDESC)) == extents(made.other(BAND_YDESC)) ? "" : "a mask changes no extents";
}

// Values are written once, by an operation before those that read them; numbers of tensors are one's own.
std::string of_graph(const Descriptor &graph) {
    std::map<int64_t, Shared> known;
    std::map<int64_t, bool> done;
    for (const Shared &operation : graph.values.at(OPERATIONGRAPH_OPS).descriptors) {
        for (const Shared &tensor : operands(*operation)) {
            auto [at, made] = known.emplace(tensor->number(TENSOR_UNIQUE_ID), tensor);
            if (at->second != tensor) return "two tensors have one number";
            if (tensor->number(TENSOR_IS_VIRTUAL, 0) && !done[at->first]) return "a value is read before it is written";
        }
        Shared to = result(*operation);
        auto [at, made] = known.emplace(to->number(TENSOR_UNIQUE_ID), to);
        if (!made) return "a tensor is written twice, or after it was read";
        done[at->first] = true;
    }
    return "";
}

const std::map<int, std::string (*)(const Descriptor &)> CHECKS = {
    {TENSOR, of_tensor}, {CONVOLUTION, of_convolution}, {OPERATION_CONVOLUTION_FORWARD, of_forward}, {OPERATION_POINTWISE, of_pointwise},
    {OPERATION_MATMUL, of_matmul}, {OPERATION_DIAGONAL_BAND_MASK, of_band}, {OPERATIONGRAPH, of_graph},
};

}  // namespace

int element_bytes(int type) { return type == DATA_FLOAT || type == DATA_INT32 ? 4 : type == DATA_HALF || type == DATA_BFLOAT16 ? 2 : 0; }

Tensor::Tensor(const Descriptor &of)
    : id(of.number(TENSOR_UNIQUE_ID)), type(of.number(TENSOR_DATA_TYPE)), extents(of.list(TENSOR_DIMENSIONS)), strides(of.list(TENSOR_STRIDES)),
      alignment(of.number(TENSOR_BYTE_ALIGNMENT)), is_virtual(of.number(TENSOR_IS_VIRTUAL, 0)), by_value(of.number(TENSOR_IS_BY_VALUE, 0)) {}

int64_t Tensor::elements() const {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    return count;
}

size_t Tensor::bytes() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < extents.size(); ++axis) last += (extents[axis] - 1) * strides[axis];
    return (last + 1) * element_bytes(type);
}

std::string misfit(Kind kind, int attribute, int type, int64_t count) {
    for (const Rule &rule : RULES.at(kind)) {
        if (rule.attribute != attribute) continue;
        if (rule.type != type) return "attribute " + std::to_string(attribute) + " is not of type " + std::to_string(type);
        if (count < rule.least || count > rule.most) return "attribute " + std::to_string(attribute) + " does not take " + std::to_string(count) + " elements";
        return "";
    }
    return "descriptors " + std::to_string(kind) + " have no attribute " + std::to_string(attribute);
}

std::string unfinished(const Descriptor &made) {
    for (const Rule &rule : RULES.at(made.kind)) {
        if (rule.required && !made.has(rule.attribute)) return "attribute " + std::to_string(rule.attribute) + " is missing";
        if (rule.type != T_DESCRIPTOR || !made.has(rule.attribute)) continue;
        for (const Shared &other : made.values.at(rule.attribute).descriptors) {
            if (!other->final) return "attribute " + std::to_string(rule.attribute) + " is not final";
            if (rule.kind >= 0 && other->kind != rule.kind) return "attribute " + std::to_string(rule.attribute) + " is another descriptor";
        }
    }
    auto check = CHECKS.find(made.kind);
    return check == CHECKS.end() ? "" : check->second(made);
}

std::vector<Shared> operands(const Descriptor &operation) {
    std::vector<Shared> found;
    for (int attribute : {FORWARD_X, FORWARD_W, PW_XDESC, PW_BDESC, MATMUL_ADESC, MATMUL_BDESC, BAND_XDESC, BAND_SEQ_LEN_KVDESC, BAND_SEQ_LEN_QDESC,
                          BAND_BDESC, SOFTMAX_XDESC})
        if (Shared tensor = operation.other(attribute)) found.push_back(tensor);
    return found;
}

Shared result(const Descriptor &operation) {
    for (int attribute : {FORWARD_Y, PW_YDESC, MATMUL_CDESC, BAND_YDESC, SOFTMAX_YDESC})
        if (Shared tensor = operation.other(attribute)) return tensor;
    return nullptr;
}

std::map<int64_t, Shared> tensors(const Descriptor &graph) {
    std::map<int64_t, Shared> found;
    for (const Shared &operation : graph.values.at(OPERATIONGRAPH_OPS).descriptors) {
        for (const Shared &tensor : operands(*operation)) found[tensor->number(TENSOR_UNIQUE_ID)] = tensor;
        found[result(*operation)->number(TENSOR_UNIQUE_ID)] = result(*operation);
    }
    return found;
}
