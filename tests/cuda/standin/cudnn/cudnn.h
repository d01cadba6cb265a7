// The part of cudnn_graph.h (cuDNN 9) that the stand-in has: numbers, and descriptors as attributes that were checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

using cudnnStatus_t = int;
enum : cudnnStatus_t {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_NOT_INITIALIZED = 1001,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
    CUDNN_STATUS_EXECUTION_FAILED = 5000,
};

enum Kind : int {
    POINTWISE = 0, CONVOLUTION = 1, ENGINE = 2, ENGINECFG = 3, ENGINEHEUR = 4, EXECUTION_PLAN = 5, KNOB_CHOICE = 7,
    OPERATION_CONVOLUTION_FORWARD = 10, OPERATION_POINTWISE = 13, OPERATIONGRAPH = 15, VARIANT_PACK = 16, TENSOR = 17, MATMUL = 18,
    OPERATION_MATMUL = 19, OPERATION_DIAGONAL_BAND_MASK = 44, OPERATION_SOFTMAX = 45,
};

enum Type : int {
    T_HANDLE = 0, T_DATA_TYPE = 1, T_BOOLEAN = 2, T_INT64 = 3, T_FLOAT = 4, T_VOID_PTR = 6, T_CONVOLUTION_MODE = 7, T_HEUR_MODE = 8,
    T_KNOB_TYPE = 9, T_NAN_PROPAGATION = 10, T_NUMERICAL_NOTE = 11, T_POINTWISE_MODE = 14, T_DESCRIPTOR = 15,
};

enum Attribute : int {
    POINTWISE_MODE = 0, POINTWISE_MATH_PREC = 1, POINTWISE_NAN_PROPAGATION = 2,
    CONVOLUTION_COMP_TYPE = 100, CONVOLUTION_CONV_MODE = 101, CONVOLUTION_DILATIONS = 102, CONVOLUTION_FILTER_STRIDES = 103,
    CONVOLUTION_POST_PADDINGS = 104, CONVOLUTION_PRE_PADDINGS = 105, CONVOLUTION_SPATIAL_DIMS = 106,
    ENGINEHEUR_MODE = 200, ENGINEHEUR_OPERATION_GRAPH = 201, ENGINEHEUR_RESULTS = 202,
    ENGINECFG_ENGINE = 300, ENGINECFG_KNOB_CHOICES = 302,
    EXECUTION_PLAN_HANDLE = 400, EXECUTION_PLAN_ENGINE_CONFIG = 401, EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    KNOB_CHOICE_KNOB_TYPE = 600, KNOB_CHOICE_KNOB_VALUE = 601,
    FORWARD_ALPHA = 700, FORWARD_BETA = 701, FORWARD_CONV_DESC = 702, FORWARD_W = 703, FORWARD_X = 704, FORWARD_Y = 705,
    PW_DESCRIPTOR = 750, PW_XDESC = 751, PW_BDESC = 752, PW_YDESC = 753,
    OPERATIONGRAPH_HANDLE = 800, OPERATIONGRAPH_OPS = 801,
    TENSOR_BYTE_ALIGNMENT = 900, TENSOR_DATA_TYPE = 901, TENSOR_DIMENSIONS = 902, TENSOR_STRIDES = 903, TENSOR_UNIQUE_ID = 906,
    TENSOR_IS_VIRTUAL = 907, TENSOR_IS_BY_VALUE = 908,
    VARIANT_PACK_UNIQUE_IDS = 1000, VARIANT_PACK_DATA_POINTERS = 1001, VARIANT_PACK_WORKSPACE = 1003,
    ENGINE_OPERATION_GRAPH = 1300, ENGINE_GLOBAL_INDEX = 1301, ENGINE_NUMERICAL_NOTE = 1303,
    MATMUL_COMP_TYPE = 1500, MATMUL_ADESC = 1520, MATMUL_BDESC = 1521, MATMUL_CDESC = 1522, MATMUL_DESC = 1523,
    BAND_XDESC = 3000, BAND_SEQ_LEN_KVDESC = 3001, BAND_SEQ_LEN_QDESC = 3002, BAND_BDESC = 3005, BAND_YDESC = 3006,
    BAND_COMPARISON_MODE = 3007, SOFTMAX_XDESC = 3100, SOFTMAX_YDESC = 3101,
};

enum : int { DATA_FLOAT = 0, DATA_HALF = 2, DATA_INT32 = 4, DATA_BFLOAT16 = 9 };
enum : int { PW_ADD = 0, PW_MUL = 1, PW_RELU = 100, PW_GELU_TANH = 107, PW_CMP_GE = 304 };
enum Note : int { TENSOR_CORE = 0, NONDETERMINISTIC = 4, WINOGRAD = 5, STRICT_NAN_PROP = 9 };
enum : int { HEUR_FALLBACK = 2, HEUR_A = 3 };

struct Descriptor;
using Shared = std::shared_ptr<Descriptor>;  // whoever refers to a descriptor keeps it, as the library does

struct Value {
    std::vector<int64_t> numbers;  // of every type but those below
    std::vector<float> floats;
    std::vector<Shared> descriptors;
};

struct Descriptor {
    Kind kind;
    bool final = false;
    std::map<int, Value> values;

    bool has(int attribute) const { return values.count(attribute) != 0; }
    const std::vector<int64_t> &list(int attribute) const { return values.at(attribute).numbers; }
    int64_t number(int attribute) const { return values.at(attribute).numbers.at(0); }
    int64_t number(int attribute, int64_t otherwise) const { return has(attribute) ? number(attribute) : otherwise; }
    float real(int attribute) const { return values.at(attribute).floats.at(0); }
    Shared other(int attribute) const { return has(attribute) ? values.at(attribute).descriptors.at(0) : nullptr; }
};

// What a tensor is.
struct Tensor {
    int64_t id;
    int type;
    std::vector<int64_t> extents, strides;
    int64_t alignment;
    bool is_virtual, by_value;

    explicit Tensor(const Descriptor &of);
    int64_t elements() const;
    size_t bytes() const;  // from its first element to the end of its last
};

int element_bytes(int type);
std::string misfit(Kind kind, int attribute, int type, int64_t count);  // why a descriptor has no such attribute; "" where it has
std::string unfinished(const Descriptor &made);                         // why it cannot be final; likewise
std::vector<Shared> operands(const Descriptor &operation);              // tensors that are read
Shared result(const Descriptor &operation);
std::map<int64_t, Shared> tensors(const Descriptor &graph);             // by their numbers

// A graph that is to be computed: where its tensors are, and what the host gave.
struct Work {
    Shared graph;
    std::map<int64_t, char *> places;
    std::map<int64_t, double> numbers;
    char *workspace;
    size_t workspace_bytes;
    bool tf32;
};

void compute(const Work &work);
