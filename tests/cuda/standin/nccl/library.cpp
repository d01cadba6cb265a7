// A library that stands in for NCCL: it checks what it is asked as strictly as the documentation allows, and carries it
// between the stand-in drivers of several threads or processes.
//
// STANDIN_NCCL_VERSION says which it is; STANDIN_NCCL_FAILS="ncclAllReduce=6" has communicators fail at that call;
// STANDIN_NCCL_FOLDER is where groups meet.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "nccl.h"

#define CALL extern "C" __attribute__((visibility("default")))

extern "C" int cuCtxGetDevice(int *device);
extern "C" int standin_patient_launch(void *stream, int (*function)(void *), void *data);
extern "C" int standin_device_of(uint64_t start, size_t bytes);
extern "C" int standin_stream_device(void *stream);
extern "C" int standin_records();

namespace {

std::recursive_mutex lock;  // taken before the driver's: never while that is held
std::mutex writing;
std::string complaint;  // what was wrong with the last call that was refused
std::map<Comm *, std::shared_ptr<Comm>> alive;
std::vector<std::shared_ptr<Operation>> every;  // streams refer to them
thread_local int depth = 0;                     // of groups
thread_local std::vector<std::shared_ptr<Operation>> grouped;

#define ENTER std::lock_guard<std::recursive_mutex> guard(lock)

std::string setting(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

bool fails(const char *call, ncclResult_t *status) {
    std::string all = setting("STANDIN_NCCL_FAILS");
    size_t equals = all.find('=');
    if (equals == std::string::npos || all.substr(0, equals) != call) return false;
    *status = static_cast<ncclResult_t>(std::atoi(all.c_str() + equals + 1));
    return true;
}

std::shared_ptr<Comm> comm_of(Comm *given) {
    auto found = alive.find(given);
    return found == alive.end() ? nullptr : found->second;
}

// Whether all ranks have put a file of this name; each has then asked for a group of the same size, on another GPU.
bool complete(Comm &comm, const char *name) {
    std::map<std::string, int> devices;
    for (int rank = 0; rank < comm.size; ++rank) {
        std::string file = comm.file(name + ("." + std::to_string(rank)));
        if (!there(file)) return false;
        std::string told = got(file), size = told.substr(0, told.find(' ')), device = told.substr(told.find(' ') + 1);
        if (size != std::to_string(comm.size)) comm.fail(ncclInvalidUsage, "rank " + std::to_string(rank) + " joins a group of " + size);
        if (devices.count(device)) comm.fail(ncclInvalidUsage, "duplicate GPU: ranks " + std::to_string(devices[device]) + " and " + std::to_string(rank));
        devices[device] = rank;
    }
    return true;
}

void tell(Comm &comm, const char *name) {
    put(comm.file(name + ("." + std::to_string(comm.rank))), std::to_string(comm.size) + " " + std::to_string(comm.device), "", 0);
}

int turn(void *data) { return advance(*static_cast<Operation *>(data)); }

// Puts what was asked for into streams: a caller that does not look has nothing there.
void launch(Comm &comm) {
    while (!comm.asked.empty()) {
        auto next = comm.asked.front();
        comm.asked.pop_front();
        every.push_back(next);
        ++comm.unfinished;
        standin_patient_launch(next->stream, turn, next.get());
    }
}

ncclResult_t state(Comm &comm) {
    if (comm.error != ncclSuccess) return comm.error;
    if (!comm.ready) comm.ready = complete(comm, "join");
    if (comm.error != ncclSuccess) return comm.error;
    if (!comm.ready) return ncclInProgress;
    launch(comm);
    return comm.leaving && (comm.unfinished || !complete(comm, "leave")) ? ncclInProgress : ncclSuccess;
}

// What a call on a communicator gives back: those that block wait here.
ncclResult_t answered(const std::shared_ptr<Comm> &comm) {
    if (!comm->blocking) return ncclInProgress;
    ncclResult_t found;
    while ((found = state(*comm)) == ncclInProgress) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return found;
}

bool apart(const char *one, size_t bytes, const char *other, size_t more) { return one + bytes <= other || other + more <= one; }

// The first rule that a call breaks.
std::string broken(const Comm &comm, int type, void *stream) {
    if (!comm.ready || !comm.asked.empty()) return "a communicator is in progress: look at its state first";
    if (comm.leaving) return "a communicator is finalized";
    if (type < 0 || type > 9) return "no such type";
    if (standin_records()) return "a stream records a graph";
    if (standin_stream_device(stream) != comm.device) return "the stream is not one of the communicator's GPU";
    return "";
}

std::string unheld(const Comm &comm, const void *start, size_t bytes) {
    if (!bytes || standin_device_of(reinterpret_cast<uint64_t>(start), bytes) == comm.device) return "";
    return "memory is not of one allocation of the communicator's GPU";
}

ncclResult_t asked(std::shared_ptr<Operation> one) {
    Comm &comm = *one->comm;
    if (ncclResult_t status; fails(KINDS[one->kind], &status)) comm.fail(status, "the test asked for it");
    if (depth) {
        grouped.push_back(one);
        return ncclSuccess;
    }
    comm.asked.push_back(one);
    return answered(one->comm);
}

ncclResult_t collective(Kind kind, const void *source, void *target, size_t count, int type, int detail, int most, Comm *given, void *stream) {
    ENTER;
    std::string call = KINDS[kind];
    auto comm = comm_of(given);
    if (!comm) return refuse(call + ": no such communicator");
    if (std::string why = broken(*comm, type, stream); !why.empty()) return refuse(call + ": " + why, ncclInvalidUsage);
    if (detail < 0 || detail >= most) return refuse(call + (kind == BROADCAST ? ": no such root" : ": no such combination"));
    auto one = std::make_shared<Operation>(Operation{comm, kind, static_cast<const char *>(source), static_cast<char *>(target), count, type, detail, stream});
    for (std::string why : {unheld(*comm, source, one->sent()), unheld(*comm, target, one->received())})
        if (!why.empty()) return refuse(call + ": " + why);
    const char *place = kind == REDUCE_SCATTER ? one->source + comm->rank * one->bytes() : one->source;
    const char *own = kind == ALL_GATHER ? one->target + comm->rank * one->bytes() : one->target;
    if (place != own && !apart(one->source, one->sent(), one->target, one->received())) return refuse(call + ": operands and results overlap");
    one->number = comm->collectives++;
    return asked(one);
}

ncclResult_t message(bool sent, void *place, size_t count, int type, int peer, Comm *given, void *stream) {
    ENTER;
    std::string call = sent ? "ncclSend" : "ncclRecv";
    auto comm = comm_of(given);
    if (!comm) return refuse(call + ": no such communicator");
    if (std::string why = broken(*comm, type, stream); !why.empty()) return refuse(call + ": " + why, ncclInvalidUsage);
    if (peer < 0 || peer >= comm->size || peer == comm->rank) return refuse(call + ": no such peer");
    if (std::string why = unheld(*comm, place, count * WIDTHS[type]); !why.empty()) return refuse(call + ": " + why);
    long number = (sent ? comm->sends : comm->receives)[peer]++;
    Message one{sent, peer, static_cast<char *>(place), count, type, number};
    for (auto &open : grouped)  // messages of one group, communicator and stream are one operation
        if (open->kind == MESSAGES && open->comm == comm && open->stream == stream) {
            open->messages.push_back(one);
            return ncclSuccess;
        }
    auto made = std::make_shared<Operation>(Operation{comm, MESSAGES});
    made->stream = stream;
    made->messages.push_back(one);
    return asked(made);
}

}  // namespace

void complain(const std::string &why) {
    std::lock_guard<std::mutex> guard(writing);
    complaint = why;
}
ncclResult_t refuse(const std::string &why, ncclResult_t status) {
    complain(why);
    return status;
}
void Comm::fail(ncclResult_t with, const std::string &why) {
    if (error == ncclSuccess) error = with, complain(why);
}

CALL ncclResult_t ncclGetVersion(int *version) {
    std::string given = setting("STANDIN_NCCL_VERSION");
    *version = given.empty() ? 23203 : std::atoi(given.c_str());
    return ncclSuccess;
}
CALL const char *ncclGetErrorString(ncclResult_t status) {
    static const char *const TEXTS[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
                                        "remote process exited or there was a network error", "NCCL operation in progress"};
    return status >= 0 && status <= ncclInProgress ? TEXTS[status] : "unknown result code";
}
CALL ncclResult_t ncclGetUniqueId(ncclUniqueId *made) {
    std::string folder = setting("STANDIN_NCCL_FOLDER");
    folder = (folder.empty() ? "/dev/shm" : folder) + "/nccl-XXXXXX";
    if (folder.size() >= sizeof made->internal || !mkdtemp(folder.data())) return refuse("no folder to meet in", ncclSystemError);
    std::memset(made, 0, sizeof *made);
    std::memcpy(made->internal, folder.data(), folder.size());
    return ncclSuccess;
}
CALL ncclResult_t ncclCommInitRankConfig(Comm **made, int size, ncclUniqueId unique, int rank, const ncclConfig_t *config) {
    ENTER;
    int device;
    if (config && (config->size < sizeof(ncclConfig_t) || config->magic != 0xcafebeef || config->version < 21400)) return refuse("a configuration is none");
    if (rank < 0 || rank >= size) return refuse("a rank that the group does not have");
    if (cuCtxGetDevice(&device)) return refuse("no device is current", ncclUnhandledCudaError);
    unique.internal[sizeof unique.internal - 1] = 0;
    if (!there(unique.internal)) return refuse("a unique id that nobody has made");
    auto comm = std::make_shared<Comm>(Comm{unique.internal, size, rank, device});
    comm->blocking = !config || config->blocking;
    if (there(comm->file("join." + std::to_string(rank)))) return refuse("a rank joins twice", ncclInvalidUsage);
    tell(*comm, "join");
    alive[*made = comm.get()] = comm;
    return answered(comm);
}
CALL ncclResult_t ncclCommGetAsyncError(Comm *given, ncclResult_t *found) {
    ENTER;
    auto comm = comm_of(given);
    if (!comm) return refuse("ncclCommGetAsyncError: no such communicator");
    *found = state(*comm);
    return ncclSuccess;
}
CALL ncclResult_t ncclCommFinalize(Comm *given) {
    ENTER;
    auto comm = comm_of(given);
    if (!comm || comm->leaving || !comm->asked.empty()) return refuse("ncclCommFinalize: not a communicator, or one in progress");
    comm->leaving = true;
    tell(*comm, "leave");
    return answered(comm);
}
CALL ncclResult_t ncclCommDestroy(Comm *given) {
    ENTER;
    auto comm = comm_of(given);
    if (!comm || !comm->leaving || state(*comm) != ncclSuccess) return refuse("ncclCommDestroy: not a finalized communicator", ncclInvalidUsage);
    tell(*comm, "gone");
    if (complete(*comm, "gone")) std::filesystem::remove_all(comm->folder);
    alive.erase(given);
    return ncclSuccess;
}
CALL ncclResult_t ncclCommAbort(Comm *given) {
    ENTER;
    auto comm = comm_of(given);
    if (!comm) return refuse("ncclCommAbort: no such communicator");
    comm->aborted = true;
    alive.erase(given);
    return ncclSuccess;
}

CALL ncclResult_t ncclAllReduce(const void *source, void *target, size_t count, int type, int how, Comm *comm, void *stream) {
    return collective(ALL_REDUCE, source, target, count, type, how, 4, comm, stream);
}
CALL ncclResult_t ncclReduceScatter(const void *source, void *target, size_t count, int type, int how, Comm *comm, void *stream) {
    return collective(REDUCE_SCATTER, source, target, count, type, how, 4, comm, stream);
}
CALL ncclResult_t ncclAllGather(const void *source, void *target, size_t count, int type, Comm *comm, void *stream) {
    return collective(ALL_GATHER, source, target, count, type, 0, 1, comm, stream);
}
CALL ncclResult_t ncclBroadcast(const void *source, void *target, size_t count, int type, int root, Comm *given, void *stream) {
    auto comm = comm_of(given);
    return collective(BROADCAST, source, target, count, type, root, comm ? comm->size : 0, given, stream);
}
CALL ncclResult_t ncclSend(const void *place, size_t count, int type, int peer, Comm *comm, void *stream) {
    return message(true, const_cast<void *>(place), count, type, peer, comm, stream);
}
CALL ncclResult_t ncclRecv(void *place, size_t count, int type, int peer, Comm *comm, void *stream) {
    return message(false, place, count, type, peer, comm, stream);
}
CALL ncclResult_t ncclGroupStart() {
    ++depth;
    return ncclSuccess;
}
CALL ncclResult_t ncclGroupEnd() {
    ENTER;
    if (!depth) return refuse("a group ends that did not begin", ncclInvalidUsage);
    if (--depth) return ncclSuccess;
    auto ended = std::move(grouped);
    grouped.clear();
    ncclResult_t found = ncclSuccess;
    for (auto &one : ended) one->comm->asked.push_back(one);
    for (auto &one : ended) found = std::max(found, answered(one->comm));
    return found;
}

// ---- what tests ask of the stand-in

CALL const char *standin_nccl_complaint() { return complaint.c_str(); }
CALL long standin_nccl_alive() { return static_cast<long>(alive.size()); }
