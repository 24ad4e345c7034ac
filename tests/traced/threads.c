/* Two threads that initialise CUDA and make contexts on two GPUs at once. Needs two GPUs.
 *
 * shows init: init, mask (unset), by both threads
 * shows context: context made on GPU 0, on one thread
 * shows context: context made on GPU 1, on the other one
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef int (*init_t)(unsigned);
typedef int (*count_t)(int *);
typedef int (*retain_t)(void **, int);

static void *libcuda;
static pthread_barrier_t together;

static void *work(void *device)
{
    void *context;
    pthread_barrier_wait(&together);
    int status = ((init_t)dlsym(libcuda, "cuInit"))(0); /* here: init */
    pthread_barrier_wait(&together);
    if (status == 0)
        status = ((retain_t)dlsym(libcuda, "cuDevicePrimaryCtxRetain"))(&context, (int)(long)device); /* here: context */
    return (void *)(long)status;
}

int main(void)
{
    pthread_t threads[2];
    int count = 0;
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 1;
    pthread_barrier_init(&together, NULL, 2);
    for (long device = 0; device < 2; device++)
        pthread_create(&threads[device], NULL, work, (void *)device);
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        void *status;
        pthread_join(threads[i], &status);
        failed += status != NULL;
    }
    ((count_t)dlsym(libcuda, "cuDeviceGetCount"))(&count);
    if (count < 2) {
        puts("needs 2 GPUs");
        return 77;
    }
    printf("failed %d\n", failed);
    return failed;
}
