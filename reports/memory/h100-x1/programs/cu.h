// What the C programs use of libcuda, by prototypes of their own: no header of the toolkit is needed. Checked against
// CUDA 13.0's cuda.h. Functions have the names that the library exports.
#ifndef CU_H
#define CU_H
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MIB ((size_t)1 << 20)

typedef unsigned long long DevicePointer;
typedef void *Context, *Stream, *Array;
typedef unsigned long long PhysicalHandle;
typedef struct { char reserved[64]; } IpcHandle;
typedef struct { int type, id; } Location;
typedef struct {
    int type, requested_handle_types;
    Location location;
    void *win32;
    struct { unsigned char compression, rdma; unsigned short usage; unsigned char reserved[4]; } flags;
} PhysicalProperties;
typedef struct { Location location; int flags; } AccessOf;
typedef struct { size_t width, height; unsigned format, channels; } ArrayDescriptor;

enum { PINNED = 1, ON_DEVICE = 1, READ_WRITE = 3, FILE_DESCRIPTOR = 1, LAZY_PEER_ACCESS = 1, FLOAT_FORMAT = 0x20 };

int cuInit(unsigned flags);
int cuDeviceGet(int *device, int ordinal);
int cuDevicePrimaryCtxRetain(Context *context, int device);
int cuCtxSetCurrent(Context context);
int cuCtxSynchronize(void);
int cuGetErrorName(int status, const char **name);
int cuMemAlloc_v2(DevicePointer *pointer, size_t bytes);
int cuMemFree_v2(DevicePointer pointer);
int cuMemsetD8_v2(DevicePointer pointer, unsigned char value, size_t bytes);
int cuStreamCreate(Stream *stream, unsigned flags);
int cuStreamSynchronize(Stream stream);
int cuMemAllocAsync(DevicePointer *pointer, size_t bytes, Stream stream);
int cuMemFreeAsync(DevicePointer pointer, Stream stream);
int cuMemAddressReserve(DevicePointer *address, size_t bytes, size_t alignment, DevicePointer hint, unsigned long long flags);
int cuMemAddressFree(DevicePointer address, size_t bytes);
int cuMemCreate(PhysicalHandle *handle, size_t bytes, const PhysicalProperties *properties, unsigned long long flags);
int cuMemRelease(PhysicalHandle handle);
int cuMemMap(DevicePointer address, size_t bytes, size_t offset, PhysicalHandle handle, unsigned long long flags);
int cuMemUnmap(DevicePointer address, size_t bytes);
int cuMemSetAccess(DevicePointer address, size_t bytes, const AccessOf *access, size_t count);
int cuMemExportToShareableHandle(void *out, PhysicalHandle handle, int type, unsigned long long flags);
int cuMemImportFromShareableHandle(PhysicalHandle *handle, void *os_handle, int type);
int cuIpcGetMemHandle(IpcHandle *handle, DevicePointer pointer);
int cuIpcOpenMemHandle_v2(DevicePointer *pointer, IpcHandle handle, unsigned flags);
int cuIpcCloseMemHandle(DevicePointer pointer);
int cuArrayCreate_v2(Array *array, const ArrayDescriptor *descriptor);
int cuArrayDestroy(Array array);

#ifdef __cplusplus
}
#endif

// Ends the program if a call fails.
static inline void must(int status, const char *call, int line) {
    const char *name = "?";
    if (status == 0)
        return;
    cuGetErrorName(status, &name);
    fprintf(stderr, "pid %d, line %d: %s: %d %s\n", (int)getpid(), line, call, status, name);
    exit(1);
}
#define MUST(call) must((call), #call, __LINE__)

// Makes the primary context of the first GPU current.
static inline void begin(void) {
    int device;
    Context context;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
}

// A line for judge.py: what this process knows that it holds.
static inline void say(const char *what, size_t bytes) {
    printf("ALLOC {\"pid\": %d, \"allocator\": \"%s\", \"ordinal\": 0, \"bytes\": %zu}\n", (int)getpid(), what, bytes);
    fflush(stdout);
}
#endif
