// The part of NCCL (nccl.h 2.14 to 2.32) that the stand-in has: numbers and structures, as compiled code sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

enum ncclResult_t {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
};
struct ncclUniqueId {
    char internal[128];
};
struct ncclConfig_t {
    size_t size;
    unsigned magic, version;
    int blocking;
};

constexpr size_t WIDTHS[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr const char *NAMES[] = {"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16"};
constexpr int PENDING = 600;  // of the stand-in driver: ask again

enum Kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, MESSAGES };
constexpr const char *KINDS[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclSend and ncclRecv"};

// One way between two ranks, within MESSAGES.
struct Message {
    bool sent;
    int peer;
    char *place;
    size_t count;
    int type;
    long number;  // of the messages that way
    bool over = false;
};

struct Comm;

// What waits in a stream.
struct Operation {
    std::shared_ptr<Comm> comm;
    Kind kind;
    const char *source = nullptr;
    char *target = nullptr;
    size_t count = 0;
    int type = 0, detail = 0;  // detail: the combination, or the root
    void *stream = nullptr;
    long number = 0;
    bool published = false;
    std::vector<Message> messages;

    size_t bytes() const { return count * WIDTHS[type]; }
    size_t sent() const;
    size_t received() const;
    std::string told() const;  // what all ranks must ask for alike
};

struct Comm {
    std::string folder;  // of files by which its ranks meet
    int size, rank, device;
    bool ready = false, blocking = false, aborted = false, leaving = false;
    ncclResult_t error = ncclSuccess;
    long collectives = 0;
    std::map<int, long> sends, receives;
    std::deque<std::shared_ptr<Operation>> asked;  // not in a stream yet: that happens when the caller looks
    int unfinished = 0;

    std::string file(const std::string &name) const { return folder + "/" + name; }
    void fail(ncclResult_t with, const std::string &why);
};

ncclResult_t refuse(const std::string &why, ncclResult_t status = ncclInvalidArgument);
void complain(const std::string &why);

bool there(const std::string &file);
void put(const std::string &file, const std::string &head, const char *data, size_t bytes);  // whole or not at all
std::string got(const std::string &file);

// A turn of an operation in its stream: 0 when it is done, or PENDING.
int advance(Operation &operation);
// target = one and other, by a combination of NCCL
void combine(char *target, const char *other, size_t count, int type, int how);
