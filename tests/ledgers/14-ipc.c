// Two children open what the parent has: memory by an IPC handle, physical memory and a pool by descriptors. All were forked before
// cuInit. They go on to hold what they opened when the parent has freed it.
#include "check.h"
#include <cuda.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

typedef struct { CUipcMemHandle plain; CUmemPoolPtrExportData pooled; } Handles;

static void send_all(int channel, const Handles *handles, const int *descriptors) {
    char space[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec data = {(void *)handles, sizeof *handles};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *beside = CMSG_FIRSTHDR(&message);
    beside->cmsg_level = SOL_SOCKET, beside->cmsg_type = SCM_RIGHTS, beside->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(beside), descriptors, 2 * sizeof(int));
    MUST(sendmsg(channel, &message, 0) < 0);
}

static void receive_all(int channel, Handles *handles, int *descriptors) {
    char space[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec data = {handles, sizeof *handles};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    MUST(recvmsg(channel, &message, 0) != (ssize_t)sizeof *handles);
    memcpy(descriptors, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
}

static void begin(void) {
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
}

static int child(int channel, int own) {
    Handles handles;
    int descriptors[2];
    char word = 'x';
    CUdeviceptr mine, plain, mapped, pooled;
    CUmemGenericAllocationHandle physical;
    CUmemoryPool pool;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    alarm(45);
    receive_all(channel, &handles, descriptors);
    begin();
    MUST(cuMemAlloc(&mine, own * MIB));
    MUST(cuIpcOpenMemHandle(&plain, handles.plain, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    MUST(cuMemImportFromShareableHandle(&physical, (void *)(long)descriptors[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    MUST(cuMemAddressReserve(&mapped, 160 * MIB, 0, 0, 0));
    MUST(cuMemMap(mapped, 160 * MIB, 0, physical, 0));
    MUST(cuMemSetAccess(mapped, 160 * MIB, &access, 1));
    MUST(cuMemPoolImportFromShareableHandle(&pool, (void *)(long)descriptors[1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemPoolImportPointer(&pooled, pool, &handles.pooled));
    MUST(cuMemsetD8(mapped, 3, 160 * MIB));
    MUST(cuMemsetD8(plain, 4, 96 * MIB));
    MUST(cuMemsetD8(pooled, 5, 64 * MIB));
    MUST(cuCtxSynchronize());
    hold(300);
    // What comes from a pool is given back here first.
    MUST(cuMemFree(pooled));
    MUST(write(channel, &word, 1) != 1);
    MUST(read(channel, &word, 1) != 1);
    // The parent has given all of it back.
    hold(300);
    MUST(cuIpcCloseMemHandle(plain));
    MUST(cuMemUnmap(mapped, 160 * MIB));
    MUST(cuMemRelease(physical));
    hold(150);
    return 0;
}

int main(void) {
    enum { CHILDREN = 2 };
    int channels[CHILDREN][2], descriptors[2], status, failed = 0;
    char word = 'x';
    Handles handles;
    CUdeviceptr plain, pooled;
    CUmemGenericAllocationHandle physical;
    CUmemoryPool pool;
    CUmemAllocationProp kind = {0};
    CUmemPoolProps pool_kind = {0};
    memset(&handles, 0, sizeof handles);
    alarm(45);
    for (int i = 0; i < CHILDREN; i++) {
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, channels[i]));
        if (fork() == 0)
            return child(channels[i][1], 48 + 16 * i);
        close(channels[i][1]);
    }
    begin();
    MUST(cuMemAlloc(&plain, 96 * MIB));
    MUST(cuIpcGetMemHandle(&handles.plain, plain));
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED, kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    MUST(cuMemCreate(&physical, 160 * MIB, &kind, 0));
    MUST(cuMemExportToShareableHandle(&descriptors[0], physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    pool_kind.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, pool_kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    pool_kind.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    MUST(cuMemPoolCreate(&pool, &pool_kind));
    MUST(cuMemPoolExportToShareableHandle(&descriptors[1], pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemAllocFromPoolAsync(&pooled, 64 * MIB, pool, 0));
    MUST(cuCtxSynchronize());
    MUST(cuMemPoolExportPointer(&handles.pooled, pooled));
    for (int i = 0; i < CHILDREN; i++)
        send_all(channels[i][0], &handles, descriptors);
    for (int i = 0; i < CHILDREN; i++)
        MUST(read(channels[i][0], &word, 1) != 1);
    close(descriptors[0]), close(descriptors[1]);
    MUST(cuMemRelease(physical));
    MUST(cuMemFreeAsync(pooled, 0));
    MUST(cuMemFree(plain));
    MUST(cuCtxSynchronize());
    hold(150);
    for (int i = 0; i < CHILDREN; i++)
        MUST(write(channels[i][0], &word, 1) != 1);
    for (int i = 0; i < CHILDREN; i++) {
        wait(&status);
        failed |= status;
    }
    printf("children ended with %d\n", failed);
    return failed != 0;
}
