/* Collectives of xlac's programs by MPI. Built by mpicc on the machine where it runs, so it fits the
   MPI that is there; mpi.py loads it. Calls come from the thread that initialized MPI, and from one of
   its own that takes turns with it (SERIALIZED), where MPI has that. */
#define _GNU_SOURCE
#include "mpi_waiting.h"

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, PERMUTE, BROADCAST, AXIS_INDEX };

typedef struct exchange {
    int32_t kind, type, combine, own, size, root, source, target;
    int64_t sent, received;
    MPI_Comm group;
    MPI_Request requests[2];
    int pending;
    const char *name;
    struct exchange *next; /* of those under way */
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

/* ---- a second thread -------------------------------------------------------------------------

   Where MPI permits it (SERIALIZED), a thread moves messages between nodes while kernels compute, and
   tells the others that this rank lives while it works for them. Threads call MPI in turn. */

static const struct timespec TICK = {0, 200000}; /* between two looks at messages that are under way */
static const double LIFE = 1.0;                  /* seconds between two signs of life */
enum { IDLE_TICKS = 100 };

static struct {
    pthread_mutex_t turn;
    pthread_cond_t more;
    pthread_t thread;
    int there, asleep, over;
    int moves;           /* whether messages go over a network: else moving them is work of this core */
    const char *work;    /* what this rank does for the others, or NULL */
    exchange *under_way; /* collectives whose messages may not have arrived, the oldest first */
} service = {.turn = PTHREAD_MUTEX_INITIALIZER};

static void take(void) { pthread_mutex_lock(&service.turn); }

static void leave(void) { pthread_mutex_unlock(&service.turn); }

static void wake(void) {
    if (service.asleep) pthread_cond_signal(&service.more);
}

/* Any call moves all messages; the oldest ones arrive first. */
static void move_messages(void) {
    while (service.under_way) {
        exchange *one = service.under_way;
        int met = 0;
        check(MPI_Testall(one->pending, one->requests, &met, MPI_STATUSES_IGNORE), one->name);
        if (!met) return;
        one->pending = 0, service.under_way = one->next;
    }
}

static void *serve(void *unused) {
    int idle = 0;
    (void)unused;
    take();
    while (!service.over) {
        if (service.work) {
            const struct timespec until = after(LIFE);
            tell_all(LIVES, world.here);
            answer(NULL);
            service.asleep = 1;
            pthread_cond_timedwait(&service.more, &service.turn, &until);
            service.asleep = idle = 0;
        } else if (idle > IDLE_TICKS) {
            service.asleep = 1;
            pthread_cond_wait(&service.more, &service.turn);
            service.asleep = idle = 0;
        } else {
            idle = service.under_way ? 0 : idle + 1;
            move_messages();
            leave();
            nanosleep(&TICK, NULL);
            take();
        }
    }
    leave();
    return NULL;
}

/* `least`: what MPI has to permit. */
static void begin_service(int least) {
    int level = MPI_THREAD_SINGLE, near = 0;
    MPI_Comm node;
    MPI_Query_thread(&level);
    if (service.there || level < least || world.size == 1) return;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &near);
    MPI_Comm_free(&node);
    condition(&service.more);
    service.over = 0, service.moves = near < world.size;
    service.there = begun(&service.thread, serve);
    service.moves = service.moves && service.there;
}

static void end_service(void) {
    if (!service.there) return;
    take();
    service.over = 1, service.there = service.moves = 0;
    wake();
    leave();
    pthread_join(service.thread, NULL);
    pthread_cond_destroy(&service.more);
}

/* What this rank does for others that wait, from now on; NULL: nothing. */
void xlac_mpi_work(const char *what) {
    take();
    service.work = what;
    snprintf(world.here, NAME, "%s", what ? what : "");
    if (service.there) wake();
    leave();
}

static void start(table *t, int64_t number, const void *source, void *target) {
    exchange *one = &t->exchanges[number];
    MPI_Datatype type = type_of(one->type);
    int sent = (int)one->sent, received = (int)one->received, code = MPI_SUCCESS;
    one->pending = 1;
    take();
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
    if (one->pending && service.moves) {
        exchange **at = &service.under_way;
        while (*at) at = &(*at)->next;
        *at = one, one->next = NULL;
        wake();
    }
    leave();
}

static void done(table *t, int64_t number) {
    exchange *one = &t->exchanges[number];
    take();
    for (exchange **at = &service.under_way; *at; at = &(*at)->next)
        if (*at == one) {
            *at = one->next;
            break;
        }
    if (one->pending) wait_for(one->pending, one->requests, A_COLLECTIVE, one->name);
    one->pending = 0;
    leave();
}

/* Whether MPI was initialized here: it is finalized here, then. `limit` as in xlac_mpi_limit. */
int xlac_mpi_open(int32_t *rank, int32_t *size, double limit) {
    int before = 0, given = 0;
    world.limit = limit;
    const int watched = calling("all ranks to begin");
    MPI_Initialized(&before);
    /* OpenMPI's usual one sends everything twice where there are two or three ranks */
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
    if (!before) MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
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
    begin_service(before ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED); /* whose caller knows of no other thread */
    returned(watched);
    return !before;
}

/* How long a rank waits for others: seconds; 0: without end. */
void xlac_mpi_limit(double seconds) { world.limit = seconds; }

void xlac_mpi_close(void) {
    int after = 0;
    MPI_Finalized(&after);
    if (after) return;
    take();
    meet_all("all ranks to end");
    leave();
    end_service();
    const int watched = calling("all ranks to end");
    MPI_Finalize();
    returned(watched);
}

/* This rank's number among those of its node. */
int xlac_mpi_local(void) {
    int before = 0;
    for (int other = 0; other < world.rank; other++) before += !strcmp(world.nodes[other], world.nodes[world.rank]);
    return before;
}

/* For collectives that a library of a device carries: listened, overdue and check of mpi_waiting.h. A
   rank waits in none when its name is empty. */
int xlac_mpi_overdue(const char *name, double waited) {
    take();
    const int over = listened(name, waited);
    leave();
    return over;
}

void xlac_mpi_late(const char *name, double waited) {
    take();
    overdue(A_COLLECTIVE, name, waited);
}

void xlac_mpi_abort(int32_t code) { MPI_Abort(MPI_COMM_WORLD, code); }

/* A group of ranks of the same color, in the order of their keys; every rank calls it. */
int64_t xlac_mpi_group(int32_t color, int32_t key) {
    MPI_Comm *group = malloc(sizeof *group);
    take();
    meet_all("all ranks to have their programs"); /* there is no MPI_Icomm_split */
    const int watched = calling("all ranks to make groups");
    MPI_Comm_split(MPI_COMM_WORLD, color, key, group);
    MPI_Comm_set_errhandler(*group, MPI_ERRORS_RETURN);
    returned(watched);
    leave();
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

/* For the host: bytes of rank 0 to all, and of all to rank 0. `what` others are waited for. */
void xlac_mpi_broadcast(void *bytes, int32_t count, const char *what) {
    MPI_Request request;
    take();
    check(MPI_Ibcast(bytes, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request), what);
    wait_for(1, &request, THE_HOST, what);
    leave();
}

void xlac_mpi_gather(const void *bytes, int32_t count, void *all) {
    MPI_Request request;
    const char *const what = "results of all ranks";
    take();
    check(MPI_Igather(bytes, count, MPI_BYTE, all, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request), what);
    wait_for(1, &request, THE_HOST, what);
    leave();
}

/* A message between two ranks, for the host: bytes to one or from one, in pieces that are under way
   until xlac_mpi_over. */
enum { PIECE = 1 << 30 };

typedef struct {
    int pieces;
    MPI_Request requests[];
} message;

int64_t xlac_mpi_message(char *bytes, int64_t count, int32_t rank, int32_t tag, int32_t sends, const char *what) {
    const int pieces = (int)((count + PIECE - 1) / PIECE);
    message *one = malloc(sizeof *one + (size_t)pieces * sizeof *one->requests);
    one->pieces = pieces;
    take();
    for (int i = 0; i < pieces; i++) {
        const int64_t begin = (int64_t)i * PIECE, left = count - begin;
        const int size = (int)(left < PIECE ? left : PIECE);
        check(sends ? MPI_Isend(bytes + begin, size, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &one->requests[i])
                    : MPI_Irecv(bytes + begin, size, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &one->requests[i]),
              what);
    }
    leave();
    return (int64_t)(intptr_t)one;
}

/* Whether the memory of a message may be used. */
int xlac_mpi_done(int64_t under_way, const char *what) {
    message *one = (message *)(intptr_t)under_way;
    int met = 0;
    take();
    check(MPI_Testall(one->pieces, one->requests, &met, MPI_STATUSES_IGNORE), what);
    leave();
    return met;
}

void xlac_mpi_over(int64_t under_way, const char *what) {
    message *one = (message *)(intptr_t)under_way;
    take();
    wait_for(one->pieces, one->requests, A_COLLECTIVE, what);
    leave();
    free(one);
}

/* Whether all ranks call this within some seconds; where not, only xlac_mpi_abort may follow. */
int xlac_mpi_meet(double seconds) {
    static MPI_Request request;
    const double until = MPI_Wtime() + seconds;
    const struct timespec pause = {0, 1000000};
    int met = 0;
    take();
    int code = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (code == MPI_SUCCESS && !met && MPI_Wtime() < until) {
        code = MPI_Test(&request, &met, MPI_STATUS_IGNORE);
        if (!met) nanosleep(&pause, NULL);
    }
    leave();
    return met;
}
