"""Whether this process has initialized CUDA, asked of the libcuda that is loaded, without loading one.

``cuDeviceGetCount`` returns ``CUDA_ERROR_NOT_INITIALIZED`` until ``cuInit`` has succeeded and initializes nothing. Where
``cuInit`` cannot succeed, because there is no GPU or the mask hides all, a stand-in for libcuda is loaded before anybody
else loads one: it finds no GPU, and counts the calls of ``cuInit``.
"""

import ctypes
import glob
import os
from typing import Callable, Optional

from .kept import Folder

LIBCUDA = "libcuda.so.1"
NOT_INITIALIZED = 3
#: Files of a driver in the kernel: of NVIDIA's one for each GPU, and that of WSL. A pattern lists the folder: a trace notes
#: who looks for such a file, and this is no library that gives up.
_GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/dx[g]")


def can_initialise(has_visible: Callable[[], bool]) -> bool:
    """Whether ``cuInit`` could succeed: there is a driver, and the mask does not hide all GPUs for certain.
    ``has_visible`` asks the program, where the wheel's module is not installed."""
    if not any(glob.glob(path) for path in _GPU_FILES):
        return False
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None or mask.startswith(("GPU-", "MIG-")):
        return True
    try:
        from cuda_pitfalls.mask import parse
    except ImportError:
        return has_visible()
    # As many GPUs as a machine may have: only a mask that begins with no number hides them all.
    return parse(mask, ["GPU-%032x" % number for number in range(64)]).status != "CUDA_ERROR_NO_DEVICE"


def _loaded() -> Optional[ctypes.CDLL]:
    """The libcuda of this process; ``None`` if it has none."""
    try:
        return ctypes.CDLL(LIBCUDA, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


class Probe:
    """Asks whether CUDA is initialized in this process."""

    def __init__(self) -> None:
        self._ask: Optional[Callable[[], bool]] = None
        self._count_refused: Callable[[], int] = lambda: 0
        self._refused = 0
        #: Whether a stand-in answers.
        self.is_stand_in = False

    def stand_in(self, lay_out: Callable[[str], str]) -> bool:
        """Loads the stand-in that ``lay_out(folder)`` makes; false where a libcuda is loaded already."""
        if _loaded() is not None:
            return False
        # Nothing is left behind: the files stay mapped.
        with Folder() as folder:
            # Its name within is libcuda.so.1: who opens that name from now on gets it.
            library = ctypes.CDLL(lay_out(folder), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        inits = _counter(library, b"cuInit")
        self._ask = lambda: inits() > 0
        self._count_refused = _counter(library, b"cuGetExportTable")
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


    def gave_up(self) -> bool:
        """Whether the stand-in was asked since the last time for what it does not have, without ``cuInit``: a library that
        wants it first (CUPTI, and JAX, which asks CUPTI) calls no ``cuInit`` then, and does on a machine with GPUs."""
        before, self._refused = self._refused, self._count_refused()
        return self._refused > before and not self.initialised()


def _counter(library: ctypes.CDLL, name: bytes) -> Callable[[], int]:
    """How often the stand-in was asked for this function."""
    name_of = library.cuda_pitfalls_count_name
    name_of.restype = ctypes.c_char_p
    counts = library.cuda_pitfalls_counts
    counts.restype = ctypes.c_size_t
    counts.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    room = counts(None, 0)
    index = next(number for number in range(room) if name_of(number) == name)
    sums = (ctypes.c_uint64 * (index + 1))()

    def asked() -> int:
        counts(sums, index + 1)
        return int(sums[index])

    return asked
