/* Takes memory and gives it back while something disturbs it: disturbed WAY. It makes its calls by the names that it looks up, so
 * that it can let go of the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 2000, THREADS = 8, CHILDREN = 50, HANDLED = 200, EXIT_CODE = 7, UNLOADED_CODE = 9 };

static int (*initialise)(unsigned), (*retain)(void **, int), (*set_current)(void *);
static int (*allocate)(uint64_t *, size_t), (*give_back)(uint64_t);
static void *context;
static int exits;
static volatile int failed, handled;

static void take(void)
{
    uint64_t address = 0;
    if (allocate(&address, 3 << 20) || give_back(address)) {
        __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
    }
}

static void *work(void *unused)
{
    set_current(context);
    for (int i = 0; i < TIMES; i++) {
        take();
    }
    return unused;
}

static void handle(int signal)
{
    uint64_t address = 0;
    (void)signal;
    if (++handled > HANDLED && exits) {
        exit(EXIT_CODE);
    }
    /* The simulated driver refuses a call that interrupts another. */
    if (!exits && allocate(&address, 1 << 20) == 0) {
        give_back(address);
    }
}

static void interrupt(int microseconds)
{
    struct sigaction action = {.sa_handler = handle};
    struct itimerval often = {{0, microseconds}, {0, microseconds}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static void scribble(void)
{
    char line[512];
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, "cuda-pitfalls-memory") && sscanf(line, "%lx-%lx", &start, &end) == 2) {
            memset((void *)start, 0xff, end - start);
        }
    }
    fclose(maps);
}

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    pthread_t threads[THREADS];
    if (strcmp(way, "limit") == 0) {
        /* Less than a page of the trace, and enough for the simulated driver. */
        struct rlimit limit = {64 << 10, 64 << 10};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    initialise = dlsym(library, "cuInit");
    retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    set_current = dlsym(library, "cuCtxSetCurrent");
    allocate = dlsym(library, "cuMemAlloc_v2");
    give_back = dlsym(library, "cuMemFree_v2");
    if (initialise(0) || retain(&context, 0)) {
        return 1;
    }
    work(NULL);
    if (strcmp(way, "unloads") == 0) {
        dlclose(library);
        return UNLOADED_CODE;
    }
    if (strcmp(way, "scribbles") == 0) {
        scribble();
        work(NULL);
    }
    if (strcmp(way, "handler") == 0 || strcmp(way, "exit") == 0) {
        exits = strcmp(way, "exit") == 0;
        interrupt(300);
        while (handled < 5 * HANDLED) {
            take();
        }
        signal(SIGALRM, SIG_IGN);
    }
    if (strcmp(way, "threads") == 0 || strcmp(way, "forks") == 0) {
        for (int i = 0; i < THREADS; i++) {
            pthread_create(&threads[i], NULL, work, NULL);
        }
        for (int i = 0; i < CHILDREN && *way == 'f'; i++) {
            pid_t child = fork();
            if (child == 0) {
                /* A forked child has no driver: every other one finds that out, and the others start a program. */
                uint64_t address = 0;
                if (i % 2) {
                    execlp("true", "true", NULL);
                }
                _exit(allocate(&address, 1 << 20) == 0 || give_back(1 << 20) == 0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            failed += status != 0;
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    printf("failed %d\n", failed);
    return 0;
}
