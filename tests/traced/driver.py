"""libcuda by ctypes, for the programs beside this file.

A function of libcuda is called directly from the program's own line: the check of its status runs once it has returned, so that no
frame of this file stands between the two.
"""
import ctypes
import sys

SKIPPED = 77


def _checked(status, function, arguments):
    if status != 0:
        raise RuntimeError("%s returned %d" % (function.__name__, status))
    return status


class Driver:
    """Every function of libcuda as an attribute; it raises if the status is not 0. `unchecked.NAME` returns the status."""

    def __init__(self, path="libcuda.so.1", checked=True):
        self._library = ctypes.CDLL(path)
        self._checked = checked
        if checked:
            self.unchecked = Driver(path, False)

    def __getattr__(self, name):
        function = self._library[name]
        function.restype = ctypes.c_int
        if self._checked:
            function.errcheck = _checked
        setattr(self, name, function)
        return function


def handle():
    """Room for a handle or an address."""
    return ctypes.c_void_p()


def integer():
    """Room for an int."""
    return ctypes.c_int()


def needs(gpus, cuda):
    """Ends the program if CUDA sees fewer GPUs; CUDA must be initialised."""
    count = integer()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    if count.value < gpus:
        print("needs %d GPUs" % gpus)
        sys.exit(SKIPPED)
