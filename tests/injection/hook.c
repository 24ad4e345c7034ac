/* An injection library of a test: its hook writes to the file of HOOK_LOG when it was called, and does what other variables say. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int status_of(void *libcuda, const char *name, void *argument)
{
    int (*call)(void *) = (int (*)(void *))dlsym(libcuda, name);
    return call(argument);
}

#ifndef WITHOUT_HOOK
int InitializeInjection(void)
{
    const char *log = getenv("HOOK_LOG"), *mask = getenv("CUDA_VISIBLE_DEVICES"), *value;
    if ((value = getenv("HOOK_SLEEPS_MS")))
        usleep(1000u * (unsigned)atoi(value));
    if (log) {
        char line[256];
        int length = snprintf(line, sizeof line, "%s thread, mask %s", syscall(SYS_gettid) == getpid() ? "first" : "other",
                              mask ? mask : "(unset)");
        if (getenv("HOOK_CALLS")) {
            void *libcuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
            int number = 0, count = status_of(libcuda, "cuDeviceGetCount", &number);
            int version = status_of(libcuda, "cuDriverGetVersion", &number);
            length += snprintf(line + length, sizeof line - length, ", count %d, version %d", count, version);
            if (atoi(getenv("HOOK_CALLS")) > 1)
                length += snprintf(line + length, sizeof line - length, ", init %d", status_of(libcuda, "cuInit", NULL));
        }
        line[length++] = '\n';
        int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (file < 0 || write(file, line, (size_t)length) != length)
            abort();
        close(file);
    }
    if ((value = getenv("HOOK_MASK")))
        setenv("CUDA_VISIBLE_DEVICES", value, 1);
    return (value = getenv("HOOK_RETURNS")) ? atoi(value) : 1;
}
#endif
