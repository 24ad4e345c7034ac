# Takes memory and gives it back, step by step, and ends after so many: takes.py WAY STEPS.
#
# It prints what it holds then, in bytes by the kinds of a ledger. Calls that must fail do.
import ctypes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driver  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
cuda = driver.Driver()
primary, other, current = driver.handle(), driver.handle(), driver.handle()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0)
cuda.cuCtxSetCurrent(primary)
known = {}


def fails(call, *arguments):
    assert getattr(cuda.unchecked, call)(*arguments) != 0, (call, arguments)


def take(name, size):
    known[name] = ctypes.c_uint64()
    cuda.cuMemAlloc_v2(ctypes.byref(known[name]), ctypes.c_size_t(size))


def free(name):
    cuda.cuMemFree_v2(known[name])


def nothing():
    address = ctypes.c_uint64()
    for size in (0, (1 << 64) - 1):
        fails("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    fails("cuMemAlloc_v2", None, ctypes.c_size_t(MIB))
    # The simulated driver refuses it, a real one does not.
    cuda.unchecked.cuMemFree_v2(ctypes.c_uint64(0))
    for unknown in (1, known["large"].value + MIB, (1 << 64) - 1):
        fails("cuMemFree_v2", ctypes.c_uint64(unknown))
    free("large")
    fails("cuMemFree_v2", known["large"])


def blocks():
    yield "allocation", 5 * 512 * KIB, lambda: [take(number, 512 * KIB) for number in range(5)]
    yield "allocation", 3 * 512 * KIB, lambda: [free(1), free(3)]
    yield "allocation", 3 * 512 * KIB + 7 * MIB + 1, lambda: take("large", 7 * MIB + 1)
    yield "allocation", 3 * 512 * KIB, nothing
    yield "allocation", 3 * 512 * KIB + 4 * MIB, lambda: [take(number, 256) for number in range(5, 5 + 16384)]
    yield "allocation", 512 * KIB, lambda: [free(number) for number in known if number not in ("large", 1, 3, 4)]


def physical(name, size):
    # CUmemAllocationProp: pinned, no handle to share, on a device, by its number.
    wanted = (ctypes.c_uint32 * 8)(1, 0, 1, 0)
    known[name] = ctypes.c_uint64()
    cuda.cuMemCreate(ctypes.byref(known[name]), ctypes.c_size_t(size), wanted, ctypes.c_uint64(0))


def map_all():
    known["at"] = ctypes.c_uint64()
    cuda.cuMemAddressReserve(ctypes.byref(known["at"]), ctypes.c_size_t(4 * MIB), ctypes.c_size_t(0), ctypes.c_uint64(0),
                             ctypes.c_uint64(0))
    cuda.cuMemMap(known["at"], ctypes.c_size_t(4 * MIB), ctypes.c_size_t(0), known["first"], ctypes.c_uint64(0))



def mappings():
    yield "physical", 6 * MIB, lambda: [physical("first", 4 * MIB), physical("second", 2 * MIB)]
    yield "physical", 6 * MIB, map_all
    yield "physical", 6 * MIB, lambda: cuda.cuMemRelease(known["first"])
    yield "physical", 6 * MIB, lambda: [fails("cuMemUnmap", known["at"], ctypes.c_size_t(size)) for size in (0, 2 * MIB, 8 * MIB)]
    yield "physical", 2 * MIB, lambda: cuda.cuMemUnmap(known["at"], ctypes.c_size_t(4 * MIB))
    yield "physical", 0, lambda: [cuda.cuMemRelease(known["second"]), fails("cuMemRelease", known["second"])]


def contexts():
    yield "allocation", 4 * MIB, lambda: take("first", 4 * MIB)
    yield "allocation", 10 * MIB, lambda: [cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0), take("second", 6 * MIB)]
    # Memory is freed in whichever context is current.
    yield "allocation", 6 * MIB, lambda: free("first")
    yield "allocation", 8 * MIB, lambda: [cuda.cuCtxSetCurrent(primary), take("third", 2 * MIB)]
    yield "allocation", 2 * MIB, lambda: cuda.cuCtxDestroy_v2(other)
    yield "allocation", 0, lambda: cuda.cuDevicePrimaryCtxReset_v2(0)
    yield "allocation", 4 * MIB, lambda: [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(primary), 0),
                                          cuda.cuCtxSetCurrent(primary), take("fourth", 4 * MIB)]


def take_async(name, size):
    known[name] = ctypes.c_uint64()
    cuda.cuMemAllocAsync(ctypes.byref(known[name]), ctypes.c_size_t(size), None)


def pools():
    yield "pool", MIB, lambda: take_async("small", MIB)
    yield "pool", 65 * MIB, lambda: take_async("large", 64 * MIB)
    yield "pool", MIB, lambda: cuda.cuMemFreeAsync(known["large"], None)
    yield "pool", MIB, lambda: cuda.cuCtxSynchronize()
    yield "pool", 0, lambda: [cuda.cuMemFreeAsync(known["small"], None), cuda.cuCtxSynchronize()]


steps = list(globals()[sys.argv[1]]())
for kind, size, step in steps[:int(sys.argv[2])]:
    step()
print(kind, size, "of" if int(sys.argv[2]) < len(steps) else "last")
