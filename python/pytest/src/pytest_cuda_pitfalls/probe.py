"""Whether this process has initialised CUDA, asked of the libcuda that is loaded, without loading one.

``cuDeviceGetCount`` returns ``CUDA_ERROR_NOT_INITIALIZED`` until ``cuInit`` has succeeded and initialises nothing. Where
``cuInit`` cannot succeed, because there is no GPU or the mask hides all, a stand-in for libcuda is loaded before anybody
else loads one: it finds no GPU, and counts the calls of ``cuInit``.
"""

import ctypes
import os
import shutil
import tempfile
from typing import Callable, Optional

LIBCUDA = "libcuda.so.1"
NOT_INITIALIZED = 3
#: Files of a driver in the kernel: NVIDIA's, and that of WSL.
_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")


def can_initialise() -> bool:
    """Whether ``cuInit`` could succeed: there is a driver, and the mask does not hide all GPUs for certain."""
    if not any(os.path.exists(path) for path in _DRIVER_FILES):
        return False
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None or mask.startswith(("GPU-", "MIG-")):
        return True
    from cuda_pitfalls.mask import parse

    # As many GPUs as a machine may have: only a mask that begins with no number hides them all.
    return parse(mask, ["GPU-%032x" % number for number in range(64)]).status != "CUDA_ERROR_NO_DEVICE"


def _loaded() -> Optional[ctypes.CDLL]:
    """The libcuda of this process; ``None`` if it has none."""
    try:
        return ctypes.CDLL(LIBCUDA, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


class Probe:
    """Asks whether CUDA is initialised in this process."""

    def __init__(self) -> None:
        self._ask: Optional[Callable[[], bool]] = None
        #: Whether a stand-in answers.
        self.is_stand_in = False

    def stand_in(self, lay_out: Callable[[str], str]) -> bool:
        """Loads the stand-in that ``lay_out(folder)`` makes; false where a libcuda is loaded already."""
        if _loaded() is not None:
            return False
        # Only this user can write there, and nothing is left behind: the files stay mapped.
        folder = tempfile.mkdtemp(prefix="cuda-pitfalls-")
        try:
            # Its name within is libcuda.so.1: who opens that name from now on gets it.
            library = ctypes.CDLL(lay_out(folder), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._ask = _counter_of_init(library)
        self.is_stand_in = True
        return True

    def initialised(self) -> bool:
        """Whether ``cuInit`` was called here with success, or at all where a stand-in answers."""
        if self._ask is None:
            library = _loaded()
            if library is None:
                return False
            count, device_count = ctypes.c_int(), library.cuDeviceGetCount
            reference = ctypes.byref(count)
            self._ask = lambda: device_count(reference) != NOT_INITIALIZED
        return self._ask()


def _counter_of_init(library: ctypes.CDLL) -> Callable[[], bool]:
    """Whether the stand-in was asked for ``cuInit``."""
    name_of = library.cuda_pitfalls_count_name
    name_of.restype = ctypes.c_char_p
    counts = library.cuda_pitfalls_counts
    counts.restype = ctypes.c_size_t
    counts.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    room = counts(None, 0)
    index = next(number for number in range(room) if name_of(number) == b"cuInit")
    sums = (ctypes.c_uint64 * (index + 1))()

    def asked() -> bool:
        counts(sums, index + 1)
        return sums[index] > 0

    return asked
