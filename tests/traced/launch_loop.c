/* Launches a kernel that does nothing, as often as the argument says (1000000), and prints the time of one launch.
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
#include <time.h>

typedef int (*init_t)(unsigned);
typedef int (*retain_t)(void **, int);
typedef int (*current_t)(void *);
typedef int (*load_t)(void **, const char *);
typedef int (*function_t)(void **, void *, const char *);
typedef int (*launch_t)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef int (*wait_t)(void);

static const char *nothing = ".version 6.0\n.target sm_50\n.address_size 64\n\n.visible .entry nothing()\n{\n    ret;\n}\n";

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
    double from_ns = now_ns();
    for (long i = 0; i < launches; i++)
        check("cuLaunchKernel", launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    double until_ns = now_ns();
    check("cuCtxSynchronize", wait());
    printf("launches %ld, ns_per_launch %.1f\n", launches, launches ? (until_ns - from_ns) / (double)launches : 0.0);
    return 0;
}
