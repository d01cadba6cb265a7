/* What the machine gives at this moment. For every empty line: f32 multiply-adds for a
 * millisecond on the last core alone, then on the first N cores together; prints both
 * rates in GFLOP/s. A virtual machine's cores may share one physical core for a while,
 * which no clock of the guest tells: together is then no more than alone. For every
 * other line: the bandwidth in GB/s of B bytes that N cores share (the last core, if N
 * is 1), read, or half of them copied to the other half where the third number is not 0.
 *   gcc -O3 -march=native -pthread cores.c -o cores;   ./cores 2 67108864 0 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "bandwidth.h"
#include "fma.h"

#define MAX_THREADS 64
enum { STEPS = 4000 };                    /* of 16 instructions: an eighth of a millisecond */

static pthread_barrier_t begin, end;
static double rates[MAX_THREADS];
static float *memory;
static size_t slice;                      /* elements of one thread's memory */
static int copies, moves;                 /* whether bytes are copied; whether memory is asked for, not arithmetic */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double rate(double seconds) {
    double work = 0, t0 = now(), t;
    do work += fma_flops(STEPS); while ((t = now()) - t0 < seconds);
    return work / (t - t0) / 1e9;
}

/* Passes over a thread's memory for a while, after as many that bring it where it stays; copies in the better of two ways. */
static double bandwidth(long index) {
    float *from = memory + index * slice, *to = from + slice / 2;
    double best = 0;
    for (int measured = 0; measured < 2; measured++)
        for (int way = 0; way < 1 + copies; way++) {
            double work = 0, t0 = now(), t;
            do work += copies ? bw_copy(from, to, slice / 2, way) : bw_read(from, slice); while ((t = now()) - t0 < 3e-2);
            if (measured && work / (t - t0) > best) best = work / (t - t0);
        }
    return best / 1e9;
}

static double asked(long index) { return moves ? bandwidth(index) : rate(1e-3); }

static void on(int cpu) {
    cpu_set_t set; CPU_ZERO(&set); CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *other(void *arg) {
    long index = (long)arg;
    on((int)index);
    for (;;) {
        pthread_barrier_wait(&begin);
        rates[index] = asked(index);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 2;
    char line[16];
    if (threads < 1 || threads > MAX_THREADS) return 2;
    copies = argc > 3 && atoi(argv[3]);
    slice = argc > 2 ? (strtoul(argv[2], NULL, 10) / 4 / threads) & ~(size_t)2047 : 0;
    if (slice) {
        size_t bytes = 4 * slice * threads, large = 2 << 20;
        char *found = mmap(NULL, bytes + large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED) return 1;
        memory = (float *)(((uintptr_t)found + large - 1) & ~(uintptr_t)(large - 1));
        madvise(memory, bytes, MADV_HUGEPAGE);
        memset(memory, 1, bytes);
    }
    pthread_barrier_init(&begin, NULL, threads);
    pthread_barrier_init(&end, NULL, threads);
    for (long i = 1; i < threads; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, other, (void *)i)) return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        int last = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
        moves = slice && line[0] != '\n';
        on(last);
        if (!moves) printf("%.2f ", rate(1e-3));
        if (threads > 1) on(0);
        pthread_barrier_wait(&begin);
        rates[0] = asked(0);
        pthread_barrier_wait(&end);
        double together = 0;
        for (long i = 0; i < threads; i++) together += rates[i];
        printf("%.2f\n", together);
        fflush(stdout);
    }
    return 0;
}
