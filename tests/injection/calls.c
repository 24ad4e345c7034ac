/* Makes the calls that its arguments name, in order, and prints what each answered. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *opened(const char *file)
{
    void *library = dlopen(file, RTLD_LAZY);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(70);
    }
    return library;
}

static int init(void)
{
    return ((int (*)(unsigned))dlsym(opened("libcuda.so.1"), "cuInit"))(0);
}

static void *init_in_a_thread(void *unused)
{
    return (void *)(long)init();
}

static void count(const char *what, const char *file, const char *name)
{
    int number = -1, status = ((int (*)(int *))dlsym(opened(file), name))(&number);
    printf("%s %d %d\n", what, status, number);
}

int main(int arguments, char **argument)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int place = 1; place < arguments; place++) {
        char *call = argument[place], *value;
        if (!strcmp(call, "init"))
            printf("init %d\n", init());
        else if (!strcmp(call, "count"))
            count("count", "libcuda.so.1", "cuDeviceGetCount");
        else if (!strcmp(call, "runtime-count"))
            count("runtime-count", "libcudart.so", "cudaGetDeviceCount");
        else if (!strcmp(call, "last-error"))
            printf("last-error %d\n", ((int (*)(void))dlsym(opened("libcudart.so"), "cudaGetLastError"))());
        else if (!strcmp(call, "runtime-version")) {
            int number;
            printf("runtime-version %d\n", ((int (*)(int *))dlsym(opened("libcudart.so"), "cudaRuntimeGetVersion"))(&number));
        } else if (!strcmp(call, "threads")) {
            pthread_t threads[2];
            for (int i = 0; i < 2; i++)
                pthread_create(&threads[i], NULL, init_in_a_thread, NULL);
            for (int i = 0; i < 2; i++) {
                void *status;
                pthread_join(threads[i], &status);
                printf("thread %ld\n", (long)status);
            }
        } else if (!strcmp(call, "fork")) {
            pid_t child = fork();
            int status;
            if (child) {
                waitpid(child, &status, 0);
                return status ? 71 : 0;
            }
        } else if (!strcmp(call, "fork-and-both-go-on")) {
            pid_t child = fork();
            if (child)
                waitpid(child, NULL, 0);
        } else if ((value = strchr(call, '='))) {
            *value++ = 0;
            setenv(call, value, 1);
        } else
            unsetenv(call);
    }
    return 0;
}
