"""What adapters use: released modules loaded alone, a fake NVML, and what a parser is asked.

An adapter is a file in `adapters/`. It runs in a process and an environment of its own, has `MEANS` (what a
wrong answer means for a user) and `QUESTIONS`, a list of `Question`. Nothing here loads CUDA or NVML.
"""

import ctypes
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
from typing import Any, Callable, NamedTuple
from unittest import mock

#: How an answer is compared with the GPUs that the driver showed, which are NVML indices in CUDA's order.
COMPARED = {
    "list": "the visible GPUs, in order",
    "set": "the visible GPUs, in any order",
    "count": "how many GPUs are visible",
    "ordinals": "the NVML index of each CUDA ordinal",
}


class NotAsked(BaseException):
    """The parser cannot be expected to answer this. Not an `Exception`, so that no parser catches it."""


class Question(NamedTuple):
    """One function of a project, and what it claims."""

    #: What is called, as the project names it.
    call: str
    #: A key of `COMPARED`.
    compared: str
    #: In a sentence: what the answer is, and what of the function's surroundings is replaced.
    claim: str
    #: Gives the answer: a number for `count`, else indices. Called with the vector; `CUDA_VISIBLE_DEVICES` is set.
    ask: Callable[[Any], Any]
    #: The module that has the function.
    module: Any
    #: A line of Python that prints the answer where the project is installed, on a machine with GPUs.
    line: str


def ordinals(ask):
    """Asks about each ordinal that the driver shows. The answers go to NVML by pynvml, which takes an `unsigned int`:
    2**32 is 0 there, and is counted as that."""
    return lambda vector: [ctypes.c_uint(ask(ordinal)).value for ordinal in range(len(vector.gpus))]


def mask():
    """The mask that is set now; None if none is."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def is_uuids(value):
    """Whether the driver reads a mask as UUIDs: the first entry decides."""
    return value is not None and value.startswith(("GPU-", "MIG-"))


class _Class(type):
    """The type of stand-ins for classes: whatever is asked of them exists."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock()

    def __getitem__(cls, _):
        return cls


def _stand_in_class(name):
    anything = {"__init__": lambda self, *_, **__: None}
    return _Class(name, (), anything)


class _Alone(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports some modules, their parents without the code of `__init__`, and stand-ins for all others."""

    def __init__(self, real):
        self.real = real

    def _is(self, name, wanted):
        return any(name == one or name.startswith(one + ".") for one in wanted)

    def find_spec(self, name, path, target=None):
        if self._is(name, self.real):
            return importlib.machinery.PathFinder.find_spec(name, path)
        if any(one.startswith(name + ".") for one in self.real):
            found = importlib.machinery.PathFinder.find_spec(name, path)
            if found is None:
                return None
            bare = importlib.machinery.ModuleSpec(name, self, is_package=True)
            bare.submodule_search_locations = found.submodule_search_locations
            return bare
        if name.split(".")[0] in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        def stand_in(name):
            whole = f"{module.__name__}.{name}"
            # A module that is real is imported by whoever asks for it.
            if name.startswith("__") or any(one == whole or one.startswith(whole + ".") for one in self.real):
                raise AttributeError(name)
            # What begins with a capital may be inherited from.
            made = _stand_in_class(name) if name.lstrip("_")[:1].isupper() and not name.isupper() else mock.MagicMock()
            setattr(module, name, made)
            return made

        module.__getattr__ = stand_in


def alone(name, *real):
    """The released module of this name, without what it imports: only `real`, modules and packages, are imported
    too. The other imports are stand-ins, so nothing of it may be called that needs them."""
    finder = _Alone((name, *real))
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)


class Nvml:
    """The part of NVML that parsers ask, with a table of UUIDs in its place; put into a module `pynvml`."""

    def __init__(self, pynvml, uuids):
        self.pynvml, self.uuids = pynvml, list(uuids)
        answers = {
            "nvmlInit": lambda *_: None,
            "nvmlInitWithFlags": lambda *_: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: len(self.uuids),
            "nvmlDeviceGetHandleByIndex": self.by_index,
            "nvmlDeviceGetHandleByUUID": self.by_uuid,
            "nvmlDeviceGetIndex": lambda handle: handle[1],
            "nvmlDeviceGetUUID": lambda handle: self.uuids[handle[1]],
            "nvmlDeviceGetMigMode": self.not_supported,
            "nvmlDeviceGetMaxMigDeviceCount": lambda _: 0,
            "nvmlDeviceIsMigDeviceHandle": lambda _: False,
        }
        for name, answer in answers.items():
            setattr(pynvml, name, answer)
            if hasattr(pynvml, name + "_v2"):
                setattr(pynvml, name + "_v2", answer)

    def by_index(self, index):
        # As the binding does: an `unsigned int`, so that -1 is out of range and 2**32 is 0.
        index = ctypes.c_uint(index).value
        if index >= len(self.uuids):
            raise self.pynvml.NVMLError(self.pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return ("gpu", index)

    def by_uuid(self, uuid):
        """As measured (docs/pitfalls/visibility/nvml-wants-the-whole-uuid.md): the whole UUID is found, and an
        index, a beginning, a space in front and a MIG token of the old form are not. One example of each was asked;
        any other beginning, and any text that begins with neither `GPU-` nor `MIG-`, is taken to be like it."""
        uuid = uuid.decode() if isinstance(uuid, bytes) else uuid
        if uuid in self.uuids:
            return ("gpu", self.uuids.index(uuid))
        digits = re.match(r"GPU-([0-9A-Fa-f-]*)", uuid)
        whole = digits and len(digits[1].replace("-", "")) >= 32
        if whole or (uuid.startswith("MIG-") and not uuid.startswith("MIG-GPU-")):
            raise NotAsked("the function passes NVML a UUID in a form that was not measured with NVML")
        raise self.pynvml.NVMLError(self.pynvml.NVML_ERROR_NOT_FOUND)

    def not_supported(self, *_):
        raise self.pynvml.NVMLError(self.pynvml.NVML_ERROR_NOT_SUPPORTED)
