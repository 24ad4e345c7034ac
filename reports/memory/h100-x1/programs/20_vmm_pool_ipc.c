// VMM (mapped and not), a pool, and memory of cuMemAlloc that a second process opens.
#include "../cu.h"
#include <sys/socket.h>
#include <sys/wait.h>

static const PhysicalProperties PROPERTIES = {.type = PINNED, .location = {ON_DEVICE, 0}};

static DevicePointer map(PhysicalHandle handle, size_t bytes) {
    AccessOf access = {{ON_DEVICE, 0}, READ_WRITE};
    DevicePointer address;
    MUST(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    MUST(cuMemMap(address, bytes, 0, handle, 0));
    MUST(cuMemSetAccess(address, bytes, &access, 1));
    MUST(cuMemsetD8_v2(address, 1, bytes));
    return address;
}

// The second process: opens what it gets, holds it for a second beside 64 MiB of its own, and closes it.
static int second(int channel) {
    IpcHandle handle;
    DevicePointer opened, own;
    char word = 'c';
    alarm(50);
    if (read(channel, &handle, sizeof handle) != sizeof handle)
        return 1;
    begin();
    MUST(cuMemAlloc_v2(&own, 64 * MIB));
    MUST(cuIpcOpenMemHandle_v2(&opened, handle, LAZY_PEER_ACCESS));
    MUST(cuMemsetD8_v2(opened, 7, 128 * MIB));
    MUST(cuCtxSynchronize());
    say("own, without what was opened", 64 * MIB);
    usleep(1000000);
    MUST(cuIpcCloseMemHandle(opened));
    MUST(cuMemFree_v2(own));
    return write(channel, &word, 1) != 1;
}

int main(void) {
    int channels[2], status = 1;
    char word = 0;
    IpcHandle ipc;
    DevicePointer plain, mapped, pooled[2];
    PhysicalHandle one, other;
    Stream stream;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, channels))
        return 1;
    // Before cuInit: the child then has a driver of its own.
    pid_t child = fork();
    if (child == 0)
        exit(second(channels[1]));
    alarm(55);
    close(channels[1]);
    begin();
    MUST(cuMemCreate(&one, 256 * MIB, &PROPERTIES, 0));
    mapped = map(one, 256 * MIB);
    MUST(cuMemCreate(&other, 128 * MIB, &PROPERTIES, 0));
    MUST(cuStreamCreate(&stream, 1));
    MUST(cuMemAllocAsync(&pooled[0], 192 * MIB, stream));
    MUST(cuMemAllocAsync(&pooled[1], 160 * MIB, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemAlloc_v2(&plain, 128 * MIB));
    MUST(cuIpcGetMemHandle(&ipc, plain));
    MUST(cuCtxSynchronize());
    say("vmm 384 MiB, pool 352 MiB, plain 128 MiB", 864 * MIB);
    if (write(channels[0], &ipc, sizeof ipc) != sizeof ipc || read(channels[0], &word, 1) != 1)
        fprintf(stderr, "the second process has gone\n");
    // One goes back to the pool, and the pool keeps it until it is synchronised.
    MUST(cuMemFreeAsync(pooled[0], stream));
    usleep(300000);
    MUST(cuStreamSynchronize(stream));
    usleep(300000);
    MUST(cuMemFreeAsync(pooled[1], stream));
    MUST(cuMemUnmap(mapped, 256 * MIB));
    MUST(cuMemAddressFree(mapped, 256 * MIB));
    MUST(cuMemRelease(one));
    MUST(cuMemRelease(other));
    MUST(cuMemFree_v2(plain));
    MUST(cuCtxSynchronize());
    waitpid(child, &status, 0);
    printf("the second process %s, status %d\n", word == 'c' ? "opened and closed" : "failed", status);
    return status != 0;
}
