/* Collectives of xlac's programs by MPI. Built by mpicc on the machine where it runs, so it fits the
   MPI that is there; mpi.py loads it. Calls come from the thread that initialized MPI (FUNNELED). */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, PERMUTE, BROADCAST, AXIS_INDEX };

typedef struct {
    int32_t kind, type, combine, own, size, root, source, target;
    int64_t sent, received;
    MPI_Comm group;
    MPI_Request requests[2];
    int pending;
    const char *name;
} exchange;

typedef struct table {
    void (*start)(struct table *, int64_t, const void *, void *);
    void (*done)(struct table *, int64_t);
    int64_t count;
    exchange *exchanges;
} table;

static const size_t WIDTHS[] = {8, 4, 8, 4, 2, 1, 8, 4, 2, 1, 2, 1};

static MPI_Datatype type_of(int type) {
    switch (type) {
    case 0: return MPI_DOUBLE;
    case 1: return MPI_FLOAT;
    case 2: return MPI_INT64_T;
    case 3: return MPI_INT32_T;
    case 4: return MPI_INT16_T;
    case 5: return MPI_INT8_T;
    case 6: return MPI_UINT64_T;
    case 7: return MPI_UINT32_T;
    case 8: return MPI_UINT16_T;
    case 9: return MPI_UINT8_T;
    case 10: return MPI_UINT16_T; /* halves are moved, never combined */
    default: return MPI_UINT8_T;  /* bool, likewise */
    }
}

static MPI_Op op_of(int combine) {
    return combine == 0 ? MPI_SUM : combine == 1 ? MPI_PROD : combine == 2 ? MPI_MAX : MPI_MIN;
}

static void check(int code, const exchange *one) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, rank = 0;
    MPI_Error_string(code, text, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "error: rank %d, collective '%s': %.*s [XL7807]\n", rank, one->name, length, text);
    MPI_Abort(MPI_COMM_WORLD, 70);
}

static void start(table *t, int64_t number, const void *source, void *target) {
    exchange *one = &t->exchanges[number];
    MPI_Datatype type = type_of(one->type);
    int sent = (int)one->sent, received = (int)one->received, code = MPI_SUCCESS;
    one->pending = 1;
    switch (one->kind) {
    case ALL_REDUCE:
        code = MPI_Iallreduce(source, target, sent, type, op_of(one->combine), one->group, one->requests);
        break;
    case REDUCE_SCATTER:
        code = MPI_Ireduce_scatter_block(source, target, received, type, MPI_SUM, one->group, one->requests);
        break;
    case ALL_GATHER:
        code = MPI_Iallgather(source, sent, type, target, sent, type, one->group, one->requests);
        break;
    case ALL_TO_ALL:
        code = MPI_Ialltoall(source, sent / one->size, type, target, sent / one->size, type, one->group,
                             one->requests);
        break;
    case BROADCAST:
        memcpy(target, one->own == one->root ? source : target,
               one->own == one->root ? (size_t)sent * WIDTHS[one->type] : 0);
        code = MPI_Ibcast(target, received, type, one->root, one->group, one->requests);
        break;
    case PERMUTE: {
        int from = one->source < 0 ? MPI_PROC_NULL : one->source;
        int to = one->target < 0 ? MPI_PROC_NULL : one->target;
        if (one->source < 0) memset(target, 0, (size_t)received * WIDTHS[one->type]);
        code = MPI_Irecv(target, received, type, from, (int)(number & 0x3fff), one->group, one->requests);
        check(code, one);
        code = MPI_Isend(source, sent, type, to, (int)(number & 0x3fff), one->group, one->requests + 1);
        one->pending = 2;
        break;
    }
    default:
        *(int32_t *)target = one->own;
        one->pending = 0;
    }
    check(code, one);
}

static void done(table *t, int64_t number) {
    exchange *one = &t->exchanges[number];
    if (one->pending) check(MPI_Waitall(one->pending, one->requests, MPI_STATUSES_IGNORE), one);
    one->pending = 0;
}

/* Whether MPI was initialized here: it is finalized here, then. */
int xlac_mpi_open(int32_t *rank, int32_t *size) {
    int before = 0, given = 0;
    MPI_Initialized(&before);
    if (!before) MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, size);
    return !before;
}

void xlac_mpi_close(void) {
    int after = 0;
    MPI_Finalized(&after);
    if (!after) MPI_Finalize();
}

void xlac_mpi_abort(int32_t code) { MPI_Abort(MPI_COMM_WORLD, code); }

/* A group of ranks of the same color, in the order of their keys; every rank calls it. */
int64_t xlac_mpi_group(int32_t color, int32_t key) {
    MPI_Comm *group = malloc(sizeof *group);
    MPI_Comm_split(MPI_COMM_WORLD, color, key, group);
    MPI_Comm_set_errhandler(*group, MPI_ERRORS_RETURN);
    return (int64_t)(intptr_t)group;
}

table *xlac_mpi_table(int64_t count) {
    table *t = calloc(1, sizeof *t);
    t->start = start, t->done = done, t->count = count;
    t->exchanges = calloc((size_t)count, sizeof *t->exchanges);
    return t;
}

void xlac_mpi_exchange(table *t, int64_t number, const int32_t *about, int64_t sent, int64_t received,
                       int64_t group, const char *name) {
    exchange *one = &t->exchanges[number];
    memcpy(&one->kind, about, 8 * sizeof *about);
    one->sent = sent, one->received = received;
    one->group = *(MPI_Comm *)(intptr_t)group, one->name = name;
}

void xlac_mpi_free(table *t) {
    free(t->exchanges);
    free(t);
}

/* For the host: bytes of one rank to all, and of all to all. 0, or a code of MPI. */
int xlac_mpi_broadcast(void *bytes, int32_t count, int32_t root) {
    return MPI_Bcast(bytes, count, MPI_BYTE, root, MPI_COMM_WORLD);
}

int xlac_mpi_gather(const void *bytes, int32_t count, void *all) {
    return MPI_Gather(bytes, count, MPI_BYTE, all, count, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* Whether all ranks call this within some seconds; where not, only xlac_mpi_abort may follow. */
int xlac_mpi_meet(double seconds) {
    static MPI_Request request;
    const double until = MPI_Wtime() + seconds;
    const struct timespec pause = {0, 1000000};
    int met = 0;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return 0;
    do {
        if (MPI_Test(&request, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
        if (!met) nanosleep(&pause, NULL);
    } while (!met && MPI_Wtime() < until);
    return met;
}
