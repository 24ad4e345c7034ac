"""cuda.bindings: threads make, push, leave and release contexts of all GPUs at once, primary ones and others."""
from common import MIB, gpus, hold
import threading
from cuda.bindings import driver, runtime


def checked(result):
    if int(result[0]):
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


count = gpus()
checked(driver.cuInit(0))
together = threading.Barrier(2 * count)
failed = []


def create(device):
    try:
        return checked(driver.cuCtxCreate(None, 0, device))
    except TypeError:
        return checked(driver.cuCtxCreate(0, device))


def primary(ordinal):
    together.wait()
    checked(runtime.cudaSetDevice(ordinal))
    at = checked(runtime.cudaMalloc((48 + 16 * ordinal) * MIB))
    hold(.4)
    checked(runtime.cudaFree(at))
    hold(.1)


def other(ordinal):
    together.wait()
    context = create(checked(driver.cuDeviceGet(ordinal)))
    at = checked(driver.cuMemAlloc(32 * MIB))
    hold(.3)
    checked(driver.cuCtxPopCurrent())

    def end():
        checked(driver.cuCtxPushCurrent(context))
        checked(driver.cuMemFree(at))
        checked(driver.cuCtxPopCurrent())
        checked(driver.cuCtxDestroy(context))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    device = checked(driver.cuDeviceGet(ordinal))
    for _ in range(2):
        retained = checked(driver.cuDevicePrimaryCtxRetain(device))
        checked(driver.cuCtxPushCurrent(retained))
        checked(driver.cuMemAlloc(24 * MIB))
        hold(.1)
        checked(driver.cuCtxPopCurrent())
        checked(driver.cuDevicePrimaryCtxRelease(device))


def guarded(work, ordinal):
    try:
        work(ordinal)
    except Exception as error:
        failed.append(error)
        together.abort()


threads = [threading.Thread(target=guarded, args=(work, ordinal)) for ordinal in range(count) for work in (primary, other)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
hold(.2)
print("failed", failed)
raise SystemExit(bool(failed))
