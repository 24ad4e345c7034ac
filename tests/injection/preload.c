/* A preloaded library that answers getenv("CUDA_VISIBLE_DEVICES") itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

char *getenv(const char *name)
{
    if (!strcmp(name, "CUDA_VISIBLE_DEVICES"))
        return "1";
    return ((char *(*)(const char *))dlsym(RTLD_NEXT, "getenv"))(name);
}
