/* What the cores give at this moment: for every line read, f32 multiply-adds for a
 * millisecond on the last core alone, then on the first N cores together. Prints both
 * rates in GFLOP/s. A virtual machine's cores may share one physical core for a while,
 * which no clock of the guest tells: together is then no more than alone.
 *   gcc -O3 -march=native -pthread cores.c -o cores;   ./cores 2 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "fma.h"

#define MAX_THREADS 64
enum { STEPS = 4000 };                    /* of 16 instructions: an eighth of a millisecond */

static pthread_barrier_t begin, end;
static double rates[MAX_THREADS];

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

static void on(int cpu) {
    cpu_set_t set; CPU_ZERO(&set); CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *other(void *arg) {
    long index = (long)arg;
    on((int)index);
    for (;;) {
        pthread_barrier_wait(&begin);
        rates[index] = rate(1e-3);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 2;
    char line[16];
    if (threads < 1 || threads > MAX_THREADS) return 2;
    pthread_barrier_init(&begin, NULL, threads);
    pthread_barrier_init(&end, NULL, threads);
    for (long i = 1; i < threads; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, other, (void *)i)) return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        on((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
        double alone = rate(1e-3);
        on(0);
        pthread_barrier_wait(&begin);
        rates[0] = rate(1e-3);
        pthread_barrier_wait(&end);
        double together = 0;
        for (long i = 0; i < threads; i++) together += rates[i];
        printf("%.2f %.2f\n", alone, together);
        fflush(stdout);
    }
    return 0;
}
