/* Launches a kernel that does nothing, as often as the argument says (1000000), in ten parts, and prints the time of
 * one launch in the fastest part, which other work on the machine disturbs least. Between these parts it launches as
 * often by the function of the mapped library that is not a trace's own, and prints how much more the first way takes:
 * without a trace both are one function.
 *
 * shows init: init, mask (unset)
 * shows context: context made on GPU 0
 * shows module: module
 * shows launch: first_use launch on GPU 0, once, and the count of all
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*init_t)(unsigned);
typedef int (*retain_t)(void **, int);
typedef int (*current_t)(void *);
typedef int (*load_t)(void **, const char *);
typedef int (*function_t)(void **, void *, const char *);
typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef int (*wait_t)(void);

static const char *nothing = ".version 6.0\n.target sm_50\n.address_size 64\n\n.visible .entry nothing()\n{\n    ret;\n}\n";

#define PARTS 10

static void *libcuda;

static void *symbol(const char *name)
{
    void *found = dlsym(libcuda, name);
    if (!found) {
        fprintf(stderr, "%s is not there\n", name);
        exit(1);
    }
    return found;
}

static void check(const char *name, int status)
{
    if (status) {
        fprintf(stderr, "%s returned %d\n", name, status);
        exit(1);
    }
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* The launch of the real libcuda: that of the mapped file which is not a trace's. */
static launch_t real_launch(void)
{
    char line[4096];
    launch_t found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        char *name = strrchr(line, '/');
        if (!path || (strncmp(name, "/libcuda.so.", 12) && strncmp(name, "/libcuda_pitfalls_sim", 21)))
            continue;
        line[strcspn(line, "\n")] = 0;
        /* A trace puts its own into a folder of this name. */
        void *library = strstr(path, "/cuda/libcuda.so.1") ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (library)
            found = (launch_t)dlsym(library, "cuLaunchKernel");
    }
    if (maps)
        fclose(maps);
    return found;
}

/* Launches so often; the time of one. */
static double launch_all(launch_t launch, void *function, wait_t wait, long count)
{
    double from_ns = now_ns();
    for (long i = 0; i < count; i++)
        check("cuLaunchKernel", launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    double each_ns = (now_ns() - from_ns) / (double)count;
    check("cuCtxSynchronize", wait());
    return each_ns;
}

int main(int arguments, char **argument)
{
    long launches = arguments > 1 ? atol(argument[1]) : 1000000;
    void *context, *module, *function;
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 1;
    launch_t launch = (launch_t)symbol("cuLaunchKernel");
    wait_t wait = (wait_t)symbol("cuCtxSynchronize");
    check("cuInit", ((init_t)symbol("cuInit"))(0)); /* here: init */
    check("cuDevicePrimaryCtxRetain", ((retain_t)symbol("cuDevicePrimaryCtxRetain"))(&context, 0)); /* here: context */
    check("cuCtxSetCurrent", ((current_t)symbol("cuCtxSetCurrent"))(context));
    check("cuModuleLoadData", ((load_t)symbol("cuModuleLoadData"))(&module, nothing)); /* here: module */
    check("cuModuleGetFunction", ((function_t)symbol("cuModuleGetFunction"))(&function, module, "nothing"));
    /* The first launch loads the kernel and is not timed. */
    check("cuLaunchKernel", launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)); /* here: launch */
    check("cuCtxSynchronize", wait());
    launch_t real = real_launch();
    double best_ns = 0.0, best_real_ns = 0.0;
    long part = launches / PARTS;
    for (int at = 0; at < PARTS && part; at++) {
        double each_ns = launch_all(launch, function, wait, part);
        double real_ns = real ? launch_all(real, function, wait, part) : 0.0;
        best_ns = at && best_ns < each_ns ? best_ns : each_ns;
        best_real_ns = at && best_real_ns < real_ns ? best_real_ns : real_ns;
    }
    printf("launches %ld, ns_per_launch %.1f", part * PARTS, best_ns);
    if (best_real_ns > 0.0)
        printf(", of_the_real_one %.4f", best_ns / best_real_ns);
    printf("\n");
    return 0;
}
