"""A framework of the tests: what real ones do with a driver, in a few lines of ctypes."""
import ctypes

NOT_INITIALIZED = 3
_library = None


class DriverError(RuntimeError):
    pass


def _cuda():
    global _library
    if _library is None:
        _library = ctypes.CDLL("libcuda.so.1")
    return _library


def _check(name, *arguments):
    status = getattr(_cuda(), name)(*arguments)
    if status != 0:
        raise DriverError("%s returned %d\nin this process" % (name, status))


def device_count():
    """Initialises the driver, as a question about it does in a real framework."""
    count = ctypes.c_int()
    _check("cuInit", 0)
    _check("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def is_available():
    return device_count() > 0


def count_without_init():
    count = ctypes.c_int()
    _check("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def zeros(device=0, size=1 << 20):
    """Makes a context on a device, makes it current to the thread, and allocates."""
    context, block = ctypes.c_void_p(), ctypes.c_uint64()
    _check("cuInit", 0)
    _check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    _check("cuCtxSetCurrent", context)
    _check("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
    return block.value
