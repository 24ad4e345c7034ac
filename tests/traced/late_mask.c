/* A mask that is written too late, in C: libcuda is opened by its name.
 *
 * shows init: init, mask (unset)
 * shows written: variable CUDA_VISIBLE_DEVICES = 1, after the init
 * shows context: context made on GPU 0, which the mask hides
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*init_t)(unsigned);
typedef int (*count_t)(int *);
typedef int (*retain_t)(void **, int);
typedef int (*current_t)(void *);
typedef int (*allocate_t)(unsigned long long *, size_t);

static void *libcuda;

static int start_up(void)
{
    return ((init_t)dlsym(libcuda, "cuInit"))(0); /* here: init */
}

static int make_context(int device)
{
    void *context;
    int status = ((retain_t)dlsym(libcuda, "cuDevicePrimaryCtxRetain"))(&context, device); /* here: context */
    unsigned long long memory;
    if (status || (status = ((current_t)dlsym(libcuda, "cuCtxSetCurrent"))(context)) != 0)
        return status;
    return ((allocate_t)dlsym(libcuda, "cuMemAlloc_v2"))(&memory, 1 << 20);
}

int main(void)
{
    int count = 0, status;
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if ((status = start_up()) != 0)
        return status;
    setenv("CUDA_VISIBLE_DEVICES", "1", 1); /* here: written */
    status = ((count_t)dlsym(libcuda, "cuDeviceGetCount"))(&count);
    printf("devices %d\n", count);
    return status ? status : make_context(0);
}
