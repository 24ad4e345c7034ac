/* A program that does what its argument says, a letter for each thing, and goes on whatever comes of it: libraries that look
 * for a GPU before they call cuInit do so. With OPENCL it is a libnvidia-opencl.so.1: the real one has a driver of its own,
 * which calls the injection hook and opens no libcuda (535.261.03). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void *pointer;
typedef int (*function)();

#ifdef OPENCL
int clIcdGetPlatformIDsKHR(unsigned room, pointer *platforms, unsigned *count)
{
    pointer hook = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    function call = hook ? (function)dlsym(hook, "InitializeInjection") : 0;
    return call ? call() : -1;
}
#else
int main(int count, char **words)
{
    struct stat about;
    pointer cuda = dlopen("libcuda.so.1", RTLD_NOW), opencl = dlopen("libnvidia-opencl.so.1", RTLD_NOW), found;
    const char *what = count > 1 ? words[1] : "";
    int result;
    for (; *what; what++)
        switch (*what) {
        /* What the simulated driver lacks. */
        case 'd': open("/dev/nvidia99", O_RDWR); break;
        case 's': stat("/dev/nvidia99", &about); break;
        case 'a': access("/dev/nvidia99", R_OK); break;
        case 'f': fopen("/proc/driver/nvidia/none", "r"); break;
        case 'y': dlsym(cuda, "cuNoSuchCall"); break;
        case 'p': ((function)dlsym(cuda, "cuGetProcAddress_v2"))("cuNoSuchCall", &found, 13000, 0ul, &result); break;
        case 'e': ((function)dlsym(cuda, "cuGetExportTable"))(&found, "a table of CUPTI"); break;
        /* What looks like it. */
        case 'o': open("/dev/null", O_RDWR), open("/dev/nvidia-fs99", O_RDWR); break;
        case 'k': dlsym(cuda, "cuInit"); break;
        case 'v': ((function)dlsym(cuda, "cuDriverGetVersion"))(&result); break;
        case 'x': dlsym(RTLD_DEFAULT, "cuNoSuchCall"); break;
        /* What libraries do later. */
        case 'i': ((function)dlsym(cuda, "cuInit"))(0); break;
        case 'm': setenv("CUDA_VISIBLE_DEVICES", "1", 1); break;
        case 'c': ((function)dlsym(opencl, "clIcdGetPlatformIDsKHR"))(0, 0, 0); break;
        }
    return 0;
}
#endif
