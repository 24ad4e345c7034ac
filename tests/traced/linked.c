/* A program that is linked with libcuda: the loader opens it before main.
 *
 * shows init: init, mask (unset)
 * shows context: context made on GPU 0
 * shows allocation: first_use allocation on GPU 0
 * shows released: context released on GPU 0
 */
#include <stddef.h>
#include <stdio.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);

int main(void)
{
    void *context;
    unsigned long long address;
    int status = cuInit(0); /* here: init */
    if (status == 0)
        status = cuDevicePrimaryCtxRetain(&context, 0); /* here: context */
    if (status == 0)
        status = cuCtxSetCurrent(context);
    if (status == 0)
        status = cuMemAlloc_v2(&address, 1 << 20); /* here: allocation */
    if (status == 0)
        status = cuDevicePrimaryCtxRelease_v2(0); /* here: released */
    printf("done %d\n", status);
    return status;
}
