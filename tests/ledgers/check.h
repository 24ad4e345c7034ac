// What the C programs share: a deadline, a pause at a peak, and a check of each call.
#ifndef CHECK_H
#define CHECK_H
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static inline void must(int status, const char *call, int line) {
    if (status == 0)
        return;
    fprintf(stderr, "pid %d, line %d: %s: status %d\n", (int)getpid(), line, call, status);
    exit(1);
}
#define MUST(call) must((int)(call), #call, __LINE__)

// Keeps what is held for so long that a reader outside sees it.
static inline void hold(int milliseconds) { usleep(1000 * milliseconds); }

// A number below `below`, of a seed of one's own.
static inline unsigned dice(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}
#endif
