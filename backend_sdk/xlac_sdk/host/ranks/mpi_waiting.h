/* Waiting for other ranks, with a limit. Part of mpi.c.

   A rank that has waited for longer than the limit asks all others where they are. Ranks that wait
   themselves, or work for others, answer; one that is dead, stopped or busy does not, and is named. */
#ifndef XLAC_MPI_WAITING_H
#define XLAC_MPI_WAITING_H
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ASK = 1, ANSWER = 2, LIVES = 3, NAME = 96, OWN_TURNS = 2000, LOOK = 8 /* turns between two looks at the clock */ };
enum { LATE = 4 /* the exit code of XL7813 */ };
enum { A_COLLECTIVE, THE_HOST /* what ranks wait in */ };
static const double LISTENING = 1e-3; /* seconds between two looks for questions */
static const double GRACE = 2.0;      /* seconds for answers, and again for others to report */

static struct {
    int rank, size;
    double limit;      /* seconds; 0: none */
    double heard;      /* when a rank last said that it works for the others */
    MPI_Comm calls;    /* for questions and answers, and where ranks only meet */
    char (*nodes)[NAME];
    char here[NAME];   /* what this rank waits for, or does for others */
} world;

static void check(int code, const char *name) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, rank = 0;
    MPI_Error_string(code, text, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "error: rank %d, collective '%s': %.*s [XL7807]\n", rank, name, length, text);
    MPI_Abort(MPI_COMM_WORLD, 70);
}

/* ---- calls of MPI that only return when all ranks have made them ----------------------------- */

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    int returned;
    double limit;
    const char *what;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A condition whose waits are measured by a clock that nobody sets. */
static void condition(pthread_cond_t *made) {
    pthread_condattr_t about;
    pthread_condattr_init(&about);
    pthread_condattr_setclock(&about, CLOCK_MONOTONIC);
    pthread_cond_init(made, &about);
    pthread_condattr_destroy(&about);
}

static struct timespec after(double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    seconds += (double)until.tv_nsec * 1e-9;
    until.tv_sec += (time_t)seconds;
    until.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
    return until;
}

/* A thread that gets none of the signals of the process. Whether there is one. */
static int begun(pthread_t *thread, void *(*run)(void *)) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code == 0;
}

/* The number of this rank, also before MPI says it. */
static int own_number(void) {
    static const char *const NAMES[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    if (world.size) return world.rank;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (getenv(NAMES[i])) return atoi(getenv(NAMES[i]));
    return 0;
}

static void *guarding(void *unused) {
    const struct timespec until = after(guard.limit);
    int code = 0;
    (void)unused;
    pthread_mutex_lock(&guard.lock);
    while (!guard.returned && !code) code = pthread_cond_timedwait(&guard.over, &guard.lock, &until);
    if (!guard.returned) { /* MPI has no call for this moment: launchers end the others when one fails */
        char node[NAME] = "";
        gethostname(node, NAME - 1);
        fprintf(stderr, "error: rank %d (%s) has waited for %.1f s for %s [XL7813]\n", own_number(), node,
                guard.limit, guard.what);
        fflush(stderr);
        _exit(LATE);
    }
    pthread_mutex_unlock(&guard.lock);
    return NULL;
}

/* Begins a call that has to return within the limit; whether `returned` has to follow. */
static int calling(const char *what) {
    if (!world.limit) return 0;
    condition(&guard.over);
    guard.returned = 0, guard.limit = world.limit, guard.what = what;
    return begun(&guard.thread, guarding);
}

static void returned(int watched) {
    if (!watched) return;
    pthread_mutex_lock(&guard.lock);
    guard.returned = 1;
    pthread_cond_signal(&guard.over);
    pthread_mutex_unlock(&guard.lock);
    pthread_join(guard.thread, NULL);
    pthread_cond_destroy(&guard.over);
}

/* ---- questions ------------------------------------------------------------------------------- */

static int tell_all(int tag, const char *text) {
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
        } else if (status.MPI_TAG == LIVES) {
            world.heard = MPI_Wtime();
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
static void overdue(int kind, const char *name, double waited) {
    char(*heard)[NAME] = calloc((size_t)world.size, NAME);
    int silent = 0, elsewhere = 0;
    char what[2 * NAME];
    snprintf(what, sizeof what, kind == A_COLLECTIVE ? "in collective '%s'" : "for %s", name);
    tell_all(ASK, world.here);
    pause_for(GRACE, heard);
    fprintf(stderr, "error: rank %d (%s) has waited for %.1f s %s [XL7813]\n", world.rank, world.nodes[world.rank],
            waited, what);
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
    MPI_Abort(MPI_COMM_WORLD, LATE);
}

/* Waits for requests of a collective of a program, or of the host: ranks may be long in coming to
   those, so the processor is left to others, and the limit counts from the last time that a rank said
   that it works. */
static void wait_for(int count, MPI_Request *requests, int kind, const char *name) {
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
                const double waited = now - (world.heard > began ? world.heard : began);
                if (world.limit && (asked || waited > world.limit)) overdue(kind, name, waited);
                listened = now;
            }
        }
        if (kind == THE_HOST && turn > OWN_TURNS) nanosleep(&moment, NULL);
        check(MPI_Testall(count, requests, &met, MPI_STATUSES_IGNORE), name);
    }
    world.here[0] = 0;
}

/* A turn of waiting in a collective that another library carries: answers questions. Whether it has
   lasted too long, for this rank or for one that waits in the same. */
static int listened(const char *name, double waited) {
    snprintf(world.here, NAME, "%s", name);
    const int asked = answer(NULL);
    const double quiet = MPI_Wtime() - world.heard; /* since a rank last said that it works */
    return world.limit && (asked || (waited < quiet ? waited : quiet) > world.limit);
}

/* Waits until all ranks have called this. */
static void meet_all(const char *name) {
    MPI_Request request;
    check(MPI_Ibarrier(world.calls, &request), name);
    wait_for(1, &request, THE_HOST, name);
}

#endif
