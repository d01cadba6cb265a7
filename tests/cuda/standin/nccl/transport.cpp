// Ranks meet by files of one folder: each publishes what it sends, whole, and takes what the others have published. So they
// are threads of one process, or processes of one machine.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "nccl.h"

extern "C" int standin_device_of(uint64_t start, size_t bytes);

bool there(const std::string &file) { return access(file.c_str(), F_OK) == 0; }

void put(const std::string &file, const std::string &head, const char *data, size_t bytes) {
    std::string part = file + ".part";
    {
        std::ofstream out(part, std::ios::binary);
        out << head << '\n';
        out.write(data, static_cast<std::streamsize>(bytes));
    }
    std::rename(part.c_str(), file.c_str());
}

std::string got(const std::string &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

size_t Operation::sent() const { return kind == REDUCE_SCATTER ? bytes() * comm->size : bytes(); }
size_t Operation::received() const { return kind == ALL_GATHER ? bytes() * comm->size : bytes(); }
std::string Operation::told() const {
    return std::string(KINDS[kind]) + " of " + std::to_string(count) + " " + NAMES[type] + ", " + std::to_string(detail);
}

namespace {

std::string named(const Operation &of, int rank, long number) { return of.comm->file("c." + std::to_string(number) + "." + std::to_string(rank)); }

bool held(const Operation &of, const void *start, size_t bytes) {
    if (!bytes || standin_device_of(reinterpret_cast<uint64_t>(start), bytes) == of.comm->device) return true;
    of.comm->fail(ncclUnhandledCudaError, std::string(KINDS[of.kind]) + ": its memory was freed before it ran");
    return false;
}

// Each element's ranks are added from another one on, in a ring, as real ones do; alike on all ranks.
void reduced(const Operation &of, const std::vector<std::string> &data, size_t first) {
    size_t width = WIDTHS[of.type], size = data.size();
    for (size_t i = 0; i < of.count; ++i) {
        size_t at = (first + i) * width, from = (first + i) % size;
        std::memcpy(of.target + i * width, data[from].data() + at, width);
        for (size_t n = 1; n < size; ++n) combine(of.target + i * width, data[(from + n) % size].data() + at, 1, of.type, of.detail);
    }
}

void delivered(const Operation &of, const std::vector<std::string> &data) {
    switch (of.kind) {
        case ALL_REDUCE: return reduced(of, data, 0);
        case REDUCE_SCATTER: return reduced(of, data, of.comm->rank * of.count);
        case ALL_GATHER:
            for (size_t rank = 0; rank < data.size(); ++rank) std::memcpy(of.target + rank * of.bytes(), data[rank].data(), of.bytes());
            return;
        default: std::memcpy(of.target, data[of.detail].data(), of.bytes());
    }
}

int advance_collective(Operation &of) {
    Comm &comm = *of.comm;
    if (!of.published) {
        if (!held(of, of.source, of.sent()) || !held(of, of.target, of.received())) return PENDING;
        put(named(of, comm.rank, of.number), of.told(), of.source, of.sent());
        of.published = true;
    }
    for (int rank = 0; rank < comm.size; ++rank)
        if (!there(named(of, rank, of.number))) return PENDING;
    std::vector<std::string> data;
    for (int rank = 0; rank < comm.size; ++rank) {
        std::string all = got(named(of, rank, of.number)), head = all.substr(0, all.find('\n'));
        if (head != of.told()) {
            comm.fail(ncclInvalidUsage, "rank " + std::to_string(rank) + " calls " + head + " where rank " + std::to_string(comm.rank) + " calls " + of.told());
            return PENDING;
        }
        data.push_back(all.substr(head.size() + 1));
    }
    delivered(of, data);
    if (of.number) unlink(named(of, comm.rank, of.number - 1).c_str());  // all others have read it: they are here
    return 0;
}

std::string way(const Comm &comm, const Message &one) {
    int from = one.sent ? comm.rank : one.peer, to = one.sent ? one.peer : comm.rank;
    return comm.file("m." + std::to_string(from) + "." + std::to_string(to) + "." + std::to_string(one.number));
}

int advance_messages(Operation &of) {
    Comm &comm = *of.comm;
    for (Message &one : of.messages) {
        size_t bytes = one.count * WIDTHS[one.type];
        if (!of.published && !held(of, one.place, bytes)) return PENDING;
        if (!of.published && one.sent) put(way(comm, one), std::to_string(one.count) + " " + NAMES[one.type], one.place, bytes);
    }
    of.published = true;
    bool over = true;
    for (Message &one : of.messages) {
        if (one.over) continue;
        std::string file = way(comm, one);
        if (one.sent) {
            one.over = !there(file);  // taken
        } else if (there(file)) {
            std::string all = got(file), head = all.substr(0, all.find('\n'));
            std::string wanted = std::to_string(one.count) + " " + NAMES[one.type];
            if (head != wanted) {
                comm.fail(ncclInvalidUsage, "rank " + std::to_string(one.peer) + " sends " + head + " where rank " + std::to_string(comm.rank) + " receives " + wanted);
                return PENDING;
            }
            std::memcpy(one.place, all.data() + head.size() + 1, one.count * WIDTHS[one.type]);
            unlink(file.c_str());
            one.over = true;
        }
        over = over && one.over;
    }
    return over ? 0 : PENDING;
}

}  // namespace

int advance(Operation &of) {
    Comm &comm = *of.comm;
    if (comm.aborted) {  // what arrives is nothing
        if (of.target && standin_device_of(reinterpret_cast<uint64_t>(of.target), of.received()) >= 0) std::memset(of.target, 0xFF, of.received());
        return 0;
    }
    if (comm.error != ncclSuccess) return PENDING;  // it never ends
    int status = of.kind == MESSAGES ? advance_messages(of) : advance_collective(of);
    if (!status) --comm.unfinished;
    return status;
}
