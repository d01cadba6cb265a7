// A library that stands in for cuDNN: it checks what it is asked as strictly as the documentation allows, and computes on the
// CPU, in the streams of the stand-in driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "cudnn.h"

#define CALL extern "C" __attribute__((visibility("default"))) cudnnStatus_t

extern "C" int cuCtxGetCurrent(void **context);
extern "C" int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
extern "C" int standin_holds(uint64_t start, size_t bytes);
extern "C" int standin_records();

namespace {

// What there is to choose from. The first that heuristics name are those which nobody should take.
struct Engine {
    int64_t number;
    int mode;  // of the heuristics that name it
    std::vector<int> notes;
    int64_t workspace;
    bool finishes;
};
const std::vector<Engine> ENGINES = {
    {7, HEUR_A, {TENSOR_CORE, NONDETERMINISTIC}, 0, true}, {5, HEUR_A, {WINOGRAD, TENSOR_CORE}, 0, true},
    {9, HEUR_A, {TENSOR_CORE}, 0, false},                  {8, HEUR_A, {TENSOR_CORE}, int64_t(1) << 40, true},
    {62, HEUR_A, {TENSOR_CORE}, 1024, true},               {0, HEUR_FALLBACK, {STRICT_NAN_PROP}, 0, true},
};
constexpr int KNOB = 24;
constexpr int64_t SETTING = 3;  // the most that the knob may be set to

struct Handle {
    void *stream = nullptr;
};

std::mutex lock;
std::string complaint;  // what was wrong with the last call that was refused
std::map<Descriptor *, Shared> alive;
std::vector<std::unique_ptr<Work>> asked;  // graphs may run them again, as long as the process lasts
long handles = 0, executions = 0, searches = 0;
int64_t used = -1;  // the engine that ran last

cudnnStatus_t refuse(const std::string &why, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
    complaint = why;
    return status;
}

const char *setting(const char *name) {
    const char *value = std::getenv(name);
    return value && *value && *value != '0' ? value : nullptr;
}

const Engine *engine_of(int64_t number) {
    auto found = std::find_if(ENGINES.begin(), ENGINES.end(), [&](const Engine &engine) { return engine.number == number; });
    return found == ENGINES.end() ? nullptr : &*found;
}

Value numbers_of(std::vector<int64_t> numbers) { return Value{numbers, {}, {}}; }

// Writes a result into a descriptor that the caller made for it.
cudnnStatus_t fill(Descriptor *into, Kind kind, std::map<int, Value> values) {
    if (!alive.count(into) || into->kind != kind || into->final) return refuse("results go into new descriptors of their kind");
    into->values = std::move(values);
    into->final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t fill_config(Descriptor *into, const Shared &graph, const Engine &engine) {
    auto made = std::make_shared<Descriptor>(Descriptor{ENGINE, true, {}});
    made->values[ENGINE_OPERATION_GRAPH] = Value{{}, {}, {graph}};
    made->values[ENGINE_GLOBAL_INDEX] = numbers_of({engine.number});
    auto knob = std::make_shared<Descriptor>(Descriptor{KNOB_CHOICE, true, {}});
    knob->values = {{KNOB_CHOICE_KNOB_TYPE, numbers_of({KNOB})}, {KNOB_CHOICE_KNOB_VALUE, numbers_of({1})}};
    return fill(into, ENGINECFG, {{ENGINECFG_ENGINE, Value{{}, {}, {made}}}, {ENGINECFG_KNOB_CHOICES, Value{{}, {}, {knob}}}});
}

size_t width_of(int type) {
    switch (type) {
        case T_BOOLEAN: return 1;
        case T_INT64: case T_HANDLE: case T_VOID_PTR: case T_DESCRIPTOR: return 8;
        default: return 4;
    }
}

cudnnStatus_t finish(Descriptor &made) {
    if (std::string why = unfinished(made); !why.empty()) return refuse(why);
    if (made.kind == ENGINE && !engine_of(made.number(ENGINE_GLOBAL_INDEX))) return refuse("no such engine", CUDNN_STATUS_NOT_SUPPORTED);
    if (made.kind == KNOB_CHOICE && (made.number(KNOB_CHOICE_KNOB_TYPE) != KNOB || made.number(KNOB_CHOICE_KNOB_VALUE) < 0 || made.number(KNOB_CHOICE_KNOB_VALUE) > SETTING))
        return refuse("no such setting of a knob", CUDNN_STATUS_NOT_SUPPORTED);
    if (made.kind == ENGINEHEUR) ++searches;
    if (made.kind == EXECUTION_PLAN) {
        const Engine &engine = *engine_of(made.other(EXECUTION_PLAN_ENGINE_CONFIG)->other(ENGINECFG_ENGINE)->number(ENGINE_GLOBAL_INDEX));
        if (standin_records()) return refuse("code is loaded while work is recorded", CUDNN_STATUS_EXECUTION_FAILED);
        if (!engine.finishes || setting("STANDIN_CUDNN_REFUSES")) return refuse("the engine does not compute this", CUDNN_STATUS_NOT_SUPPORTED);
        made.values[EXECUTION_PLAN_WORKSPACE_SIZE] = numbers_of({engine.workspace});
    }
    made.final = true;
    return CUDNN_STATUS_SUCCESS;
}

// What a graph is given: every tensor in memory a place, every number of the host its value.
cudnnStatus_t gather(const Descriptor &pack, Work &work) {
    const auto &ids = pack.list(VARIANT_PACK_UNIQUE_IDS), &pointers = pack.list(VARIANT_PACK_DATA_POINTERS);
    if (ids.size() != pointers.size()) return refuse("there is a pointer for each tensor");
    std::map<int64_t, int64_t> given;
    for (size_t k = 0; k < ids.size(); ++k)
        if (!given.emplace(ids[k], pointers[k]).second) return refuse("a tensor is given twice");
    for (const auto &[id, descriptor] : tensors(*work.graph)) {
        Tensor tensor(*descriptor);
        if (tensor.is_virtual) continue;
        auto found = given.find(id);
        if (found == given.end()) return refuse("a tensor is not given");
        void *pointer = reinterpret_cast<void *>(found->second);
        given.erase(found);
        if (tensor.by_value) {
            if (standin_holds(reinterpret_cast<uint64_t>(pointer), 4)) return refuse("a number of the host lies on the device");
            work.numbers[id] = tensor.type == DATA_INT32 ? *static_cast<int32_t *>(pointer) : *static_cast<float *>(pointer);
            continue;
        }
        if (reinterpret_cast<uint64_t>(pointer) % tensor.alignment) return refuse("a pointer is less aligned than was said");
        if (!standin_holds(reinterpret_cast<uint64_t>(pointer), tensor.bytes())) return refuse("a tensor is not all in memory");
        work.places[id] = static_cast<char *>(pointer);
    }
    return given.empty() ? CUDNN_STATUS_SUCCESS : refuse("what is given is no tensor of the graph");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() {
    const char *given = std::getenv("STANDIN_CUDNN_VERSION");
    return given ? std::strtoul(given, nullptr, 10) : 92800;
}
extern "C" __attribute__((visibility("default"))) const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
        case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
        case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
        case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
        case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
        case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED: return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
        case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    }
    return "unknown";
}
extern "C" __attribute__((visibility("default"))) void cudnnGetLastErrorString(char *message, size_t most) {
    std::snprintf(message, most, "%s", complaint.c_str());
}

CALL cudnnCreate(Handle **handle) {
    void *context = nullptr;
    if (cuCtxGetCurrent(&context) || !context) return refuse("no context is current", CUDNN_STATUS_NOT_INITIALIZED);
    if (const char *given = setting("STANDIN_CUDNN_CREATE")) return refuse("the test asked for it", std::atoi(given));
    *handle = new Handle;
    ++handles;
    return CUDNN_STATUS_SUCCESS;
}
CALL cudnnDestroy(Handle *handle) {
    if (!handle) return refuse("a handle that is none is destroyed");
    delete handle;
    --handles;
    return CUDNN_STATUS_SUCCESS;
}
CALL cudnnSetStream(Handle *handle, void *stream) {
    if (!handle) return refuse("there is no handle");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

CALL cudnnBackendCreateDescriptor(int kind, Descriptor **made) {
    std::lock_guard<std::mutex> guard(lock);
    auto created = std::make_shared<Descriptor>(Descriptor{static_cast<Kind>(kind), false, {}});
    alive[created.get()] = created;
    *made = created.get();
    return CUDNN_STATUS_SUCCESS;
}
CALL cudnnBackendDestroyDescriptor(Descriptor *descriptor) {
    std::lock_guard<std::mutex> guard(lock);
    return alive.erase(descriptor) ? CUDNN_STATUS_SUCCESS : refuse("a descriptor that is none is destroyed");
}

CALL cudnnBackendSetAttribute(Descriptor *descriptor, int attribute, int type, int64_t count, const void *elements) {
    std::lock_guard<std::mutex> guard(lock);
    if (!alive.count(descriptor) || descriptor->final || !elements) return refuse("what is final, or is none, is not changed");
    if (std::string why = misfit(descriptor->kind, attribute, type, count); !why.empty()) return refuse(why);
    Value value;
    for (int64_t k = 0; k < count; ++k) {
        const char *element = static_cast<const char *>(elements) + k * width_of(type);
        int64_t number = 0;
        float real;
        std::memcpy(&number, element, width_of(type));
        std::memcpy(&real, element, sizeof real);
        if (type == T_FLOAT) value.floats.push_back(real);
        else if (type == T_DESCRIPTOR) {
            auto found = alive.find(reinterpret_cast<Descriptor *>(number));
            if (found == alive.end()) return refuse("a descriptor is none");
            value.descriptors.push_back(found->second);
        } else value.numbers.push_back(number);
    }
    descriptor->values[attribute] = std::move(value);
    return CUDNN_STATUS_SUCCESS;
}

CALL cudnnBackendGetAttribute(Descriptor *descriptor, int attribute, int type, int64_t room, int64_t *count, void *elements) {
    std::lock_guard<std::mutex> guard(lock);
    if (!alive.count(descriptor) || !descriptor->final) return refuse("what is not final, or is none, is asked");
    *count = 0;
    auto **into = static_cast<Descriptor **>(elements);
    if (attribute == ENGINEHEUR_RESULTS && type == T_DESCRIPTOR) {
        Shared graph = descriptor->other(ENGINEHEUR_OPERATION_GRAPH);
        for (const Engine &engine : ENGINES) {
            if (engine.mode != descriptor->number(ENGINEHEUR_MODE) || *count == room) continue;
            if (cudnnStatus_t status = fill_config(into[(*count)++], graph, engine)) return status;
        }
        return CUDNN_STATUS_SUCCESS;
    }
    if (attribute == ENGINE_NUMERICAL_NOTE && type == T_NUMERICAL_NOTE) {
        const std::vector<int> &notes = engine_of(descriptor->number(ENGINE_GLOBAL_INDEX))->notes;
        *count = std::min<int64_t>(room, notes.size());
        std::copy_n(notes.begin(), *count, static_cast<int *>(elements));
        return CUDNN_STATUS_SUCCESS;
    }
    if (!descriptor->has(attribute)) return refuse("there is no such attribute to ask for");
    const Value &value = descriptor->values[attribute];
    if (type == T_DESCRIPTOR) {
        *count = std::min<int64_t>(room, value.descriptors.size());
        for (int64_t k = 0; k < *count; ++k)
            if (cudnnStatus_t status = fill(into[k], value.descriptors[k]->kind, value.descriptors[k]->values)) return status;
        return CUDNN_STATUS_SUCCESS;
    }
    *count = std::min<int64_t>(room, value.numbers.size());
    for (int64_t k = 0; k < *count; ++k) std::memcpy(static_cast<char *>(elements) + k * width_of(type), &value.numbers[k], width_of(type));
    return CUDNN_STATUS_SUCCESS;
}

CALL cudnnBackendFinalize(Descriptor *descriptor) {
    std::lock_guard<std::mutex> guard(lock);
    return alive.count(descriptor) && !descriptor->final ? finish(*descriptor) : refuse("what is final, or is none, is finished");
}

CALL cudnnBackendExecute(Handle *handle, Descriptor *plan, Descriptor *pack) {
    std::lock_guard<std::mutex> guard(lock);
    if (!handle || !alive.count(plan) || plan->kind != EXECUTION_PLAN || !plan->final) return refuse("there is no plan");
    if (!alive.count(pack) || pack->kind != VARIANT_PACK || !pack->final) return refuse("nothing is given");
    Shared engine = plan->other(EXECUTION_PLAN_ENGINE_CONFIG)->other(ENGINECFG_ENGINE);
    const Engine &chosen = *engine_of(engine->number(ENGINE_GLOBAL_INDEX));
    auto work = std::make_unique<Work>();
    work->graph = engine->other(ENGINE_OPERATION_GRAPH);
    if (cudnnStatus_t status = gather(*pack, *work)) return status;
    work->workspace = reinterpret_cast<char *>(pack->number(VARIANT_PACK_WORKSPACE));
    work->workspace_bytes = chosen.workspace;
    if (chosen.workspace && !standin_holds(reinterpret_cast<uint64_t>(work->workspace), chosen.workspace)) return refuse("the workspace is not in memory");
    Tensor first(*tensors(*work->graph).begin()->second);
    work->tf32 = first.type == DATA_FLOAT && std::count(chosen.notes.begin(), chosen.notes.end(), TENSOR_CORE);
    asked.push_back(std::move(work));
    ++executions;
    used = chosen.number;
    auto run = [](void *of) { compute(*static_cast<Work *>(of)); };
    return cuLaunchHostFunc(handle->stream, run, asked.back().get()) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}

// ---- for tests

extern "C" __attribute__((visibility("default"))) const char *standin_cudnn_complaint() { return complaint.c_str(); }
extern "C" __attribute__((visibility("default"))) long standin_cudnn_count(const char *what) {
    std::string name = what;
    if (name == "held") return handles + static_cast<long>(alive.size());
    return name == "executions" ? executions : name == "searches" ? searches : name == "engine" ? used : -1;
}
