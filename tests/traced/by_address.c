/* Every function but the first is looked up by cuGetProcAddress_v2, as libcudart does; that one as well, by itself.
 *
 * shows init: init, mask (unset)
 * shows context: context made on GPU 0
 * shows allocation: first_use allocation on GPU 0
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef int (*find_t)(const char *, void **, int, unsigned long long, int *);
typedef int (*init_t)(unsigned);
typedef int (*retain_t)(void **, int);
typedef int (*current_t)(void *);
typedef int (*allocate_t)(unsigned long long *, size_t);

static find_t find;

static void *found(const char *name)
{
    void *function = NULL;
    int result = -1, status = find(name, &function, 12000, 0, &result);
    if (status || result || !function)
        fprintf(stderr, "%s: %d %d\n", name, status, result);
    return function;
}

int main(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW), *context, *nothing;
    unsigned long long address;
    int status, result;
    if (!libcuda)
        return 1;
    find = (find_t)dlsym(libcuda, "cuGetProcAddress_v2");
    find = (find_t)found("cuGetProcAddress");
    status = ((init_t)found("cuInit"))(0); /* here: init */
    if (status == 0)
        status = ((retain_t)found("cuDevicePrimaryCtxRetain"))(&context, 0); /* here: context */
    if (status == 0)
        status = ((current_t)found("cuCtxSetCurrent"))(context);
    if (status == 0)
        status = ((allocate_t)found("cuMemAlloc"))(&address, 1 << 20); /* here: allocation */
    if (status == 0)
        status = find("cuNoSuchFunction", &nothing, 12000, 0, &result);
    printf("done %d, no such function %d\n", status, nothing != NULL || result != 1);
    return status;
}
