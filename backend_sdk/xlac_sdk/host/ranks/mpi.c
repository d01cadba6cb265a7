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

/* The largest and the least float, which MPI does not define where there is a NaN: that is NaN here,
   and +0 is above -0, as in kernels. */
static double larger(double a, double b) { return a > b ? a : a < b ? b : a == b && a != 0 ? a : a + b; }

static void extreme(const void *from, void *into, int count, MPI_Datatype type, double sign) {
    for (int i = 0; i < count; i++) {
        if (type == MPI_DOUBLE) {
            double *to = (double *)into + i;
            *to = sign * larger(sign * ((const double *)from)[i], sign * *to);
        } else {
            float *to = (float *)into + i;
            *to = (float)(sign * larger(sign * ((const float *)from)[i], sign * *to));
        }
    }
}

static void largest(void *from, void *into, int *count, MPI_Datatype *type) {
    extreme(from, into, *count, *type, 1);
}

static void least(void *from, void *into, int *count, MPI_Datatype *type) {
    extreme(from, into, *count, *type, -1);
}

static MPI_Op extremes[2]; /* of floats */

static MPI_Op op_of(int combine, int type) {
    if (combine >= 2 && type <= 1) return extremes[combine - 2];
    return combine == 0 ? MPI_SUM : combine == 1 ? MPI_PROD : combine == 2 ? MPI_MAX : MPI_MIN;
}

static void check(int code, const char *name) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, rank = 0;
    MPI_Error_string(code, text, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "error: rank %d, collective '%s': %.*s [XL7807]\n", rank, name, length, text);
    MPI_Abort(MPI_COMM_WORLD, 70);
}

/* ---- waiting, with a limit ------------------------------------------------------------------

   A rank that has waited for longer than the limit asks all others where they are. Ranks that wait
   themselves answer; one that is dead, stopped or busy does not, and is named. */

enum { ASK = 1, ANSWER = 2, NAME = 96, OWN_TURNS = 2000, LOOK = 8 /* turns between two looks at the clock */ };
static const double LISTENING = 1e-3; /* seconds between two looks for questions */
static const double GRACE = 2.0;      /* seconds for answers, and again for others to report */

static struct {
    int rank, size;
    double limit;      /* seconds; 0: none */
    MPI_Comm calls;    /* for questions and answers alone */
    char (*nodes)[NAME];
    char here[NAME];   /* what this rank waits for */
} world;

static int ask_all(int tag, const char *text) {
    int code = MPI_SUCCESS;
    for (int other = 0; other < world.size; other++) {
        MPI_Request request;
        if (other == world.rank) continue;
        code = MPI_Isend(text, NAME, MPI_CHAR, other, tag, world.calls, &request);
        if (code == MPI_SUCCESS) MPI_Request_free(&request);
    }
    return code;
}

/* Answers questions; notes in `heard`, unless it is NULL, what others answer. Whether a rank asked
   that waits for the same as this one. */
static int answer(char (*heard)[NAME]) {
    int there = 1, same = 0;
    while (there) {
        MPI_Status status;
        char text[NAME];
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world.calls, &there, &status) || !there) break;
        MPI_Recv(text, NAME, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, world.calls, &status);
        if (status.MPI_TAG == ASK) {
            MPI_Send(world.here, NAME, MPI_CHAR, status.MPI_SOURCE, ANSWER, world.calls);
            same |= !strcmp(text, world.here);
        } else if (heard) {
            memcpy(heard[status.MPI_SOURCE], text, NAME);
        }
    }
    return same;
}

static void pause_for(double seconds, char (*heard)[NAME]) {
    const struct timespec moment = {0, 2000000};
    for (double until = MPI_Wtime() + seconds; MPI_Wtime() < until; nanosleep(&moment, NULL)) answer(heard);
}

/* Reports which ranks do not answer, or wait for something else, and ends all. */
static void overdue(const char *name, double waited) {
    char(*heard)[NAME] = calloc((size_t)world.size, NAME);
    int silent = 0, elsewhere = 0;
    ask_all(ASK, world.here);
    pause_for(GRACE, heard);
    fprintf(stderr, "error: rank %d (%s) has waited for %.1f s in collective '%s' [XL7813]\n", world.rank,
            world.nodes[world.rank], waited, name);
    for (int other = 0; other < world.size; other++) {
        if (other == world.rank) continue;
        if (!heard[other][0] && ++silent <= 8)
            fprintf(stderr, "        rank %d (%s) does not answer\n", other, world.nodes[other]);
        if (heard[other][0] && strcmp(heard[other], world.here) && ++elsewhere <= 8)
            fprintf(stderr, "        rank %d (%s) is in '%s'\n", other, world.nodes[other], heard[other]);
    }
    fflush(stderr);
    free(heard);
    pause_for(GRACE, NULL);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

/* Waits for requests. A `limit` of 0 is none; then the processor is left to others, too. */
static void wait_for(int count, MPI_Request *requests, const char *name, double limit) {
    const struct timespec moment = {0, 200000};
    int met = 0;
    check(MPI_Testall(count, requests, &met, MPI_STATUSES_IGNORE), name);
    if (met) return;
    snprintf(world.here, NAME, "%s", name);
    const double began = MPI_Wtime(); /* not after some turns: where ranks share a core each may take long */
    double listened = began;
    for (int64_t turn = 1; !met; turn++) {
        if (turn % LOOK == 0) {
            const double now = MPI_Wtime();
            if (now - listened > LISTENING) {
                const int asked = answer(NULL); /* by a rank that is overdue: so are all that wait with it */
                if (limit && (asked || now - began > limit)) overdue(name, now - began);
                listened = now;
            }
        }
        if (!limit && turn > OWN_TURNS) nanosleep(&moment, NULL);
        check(MPI_Testall(count, requests, &met, MPI_STATUSES_IGNORE), name);
    }
}

static void start(table *t, int64_t number, const void *source, void *target) {
    exchange *one = &t->exchanges[number];
    MPI_Datatype type = type_of(one->type);
    int sent = (int)one->sent, received = (int)one->received, code = MPI_SUCCESS;
    one->pending = 1;
    switch (one->kind) {
    case ALL_REDUCE:
        code = MPI_Iallreduce(source, target, sent, type, op_of(one->combine, one->type), one->group, one->requests);
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
        if (one->own == one->root) memcpy(target, source, (size_t)sent * WIDTHS[one->type]);
        code = MPI_Ibcast(target, received, type, one->root, one->group, one->requests);
        break;
    case PERMUTE: {
        int from = one->source < 0 ? MPI_PROC_NULL : one->source;
        int to = one->target < 0 ? MPI_PROC_NULL : one->target;
        if (one->source < 0) memset(target, 0, (size_t)received * WIDTHS[one->type]);
        code = MPI_Irecv(target, received, type, from, (int)(number & 0x3fff), one->group, one->requests);
        check(code, one->name);
        code = MPI_Isend(source, sent, type, to, (int)(number & 0x3fff), one->group, one->requests + 1);
        one->pending = 2;
        break;
    }
    default:
        *(int32_t *)target = one->own;
        one->pending = 0;
    }
    check(code, one->name);
}

static void done(table *t, int64_t number) {
    exchange *one = &t->exchanges[number];
    if (one->pending) wait_for(one->pending, one->requests, one->name, world.limit);
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
    if (!world.nodes) {
        char own[MPI_MAX_PROCESSOR_NAME] = "", node[NAME];
        int length = 0;
        world.rank = *rank, world.size = *size;
        MPI_Comm_dup(MPI_COMM_WORLD, &world.calls);
        MPI_Comm_set_errhandler(world.calls, MPI_ERRORS_RETURN);
        MPI_Get_processor_name(own, &length);
        snprintf(node, NAME, "%s", own);
        world.nodes = calloc((size_t)*size, NAME);
        MPI_Allgather(node, NAME, MPI_CHAR, world.nodes, NAME, MPI_CHAR, MPI_COMM_WORLD);
        MPI_Op_create(largest, 1, &extremes[0]);
        MPI_Op_create(least, 1, &extremes[1]);
    }
    return !before;
}

/* How long a rank waits for others in a collective of a program: seconds; 0: without end. */
void xlac_mpi_limit(double seconds) { world.limit = seconds; }

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

/* For the host, which may be long in coming: bytes of rank 0 to all, and of all to rank 0. */
void xlac_mpi_broadcast(void *bytes, int32_t count) {
    MPI_Request request;
    check(MPI_Ibcast(bytes, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request), "a message of rank 0");
    wait_for(1, &request, "a message of rank 0", 0);
}

void xlac_mpi_gather(const void *bytes, int32_t count, void *all) {
    MPI_Request request;
    check(MPI_Igather(bytes, count, MPI_BYTE, all, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request),
          "a message to rank 0");
    wait_for(1, &request, "a message to rank 0", 0);
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
