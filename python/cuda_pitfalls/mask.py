"""The grammar of ``CUDA_VISIBLE_DEVICES``: which GPUs a process will see.

``parse`` predicts what ``cuInit`` makes of a mask, without a GPU. It gives the same answers as
``cuda_pitfalls::mask::parse`` of the Rust library, whose documentation has the grammar, what supports
each rule, and what is not known. Both agree with driver 580.159.04 on 2 H200 for 2185 masks. ``vectors``
has these and others, with what the driver did with each, to hold another parser against.

>>> gpus = ["GPU-aa00beef-0000-4000-8000-000000000000", "GPU-ab00beef-0000-4000-8000-000000000000"]
>>> parse("1,0", gpus)
Parsed(status='CUDA_SUCCESS', gpus=(1, 0))
>>> parse("1,7,0", gpus)
Parsed(status='CUDA_SUCCESS', gpus=(1,))
>>> parse("0,0", gpus)
Parsed(status='CUDA_ERROR_INVALID_DEVICE', gpus=())
>>> parse("GPU-ab", gpus)
Parsed(status='CUDA_SUCCESS', gpus=(1,))
"""

import json
import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

__all__ = ["Parsed", "Vector", "parse", "vectors"]


class Parsed(NamedTuple):
    """What a process sees after ``cuInit``."""

    #: What ``cuInit`` returns: ``CUDA_SUCCESS``, ``CUDA_ERROR_NO_DEVICE`` or ``CUDA_ERROR_INVALID_DEVICE``.
    status: str
    #: The visible GPUs in the order in which CUDA numbers them, as indices into the list that was
    #: given; empty unless ``cuInit`` succeeds.
    gpus: Tuple[int, ...]


def parse(text: Optional[str], devices: Sequence[str], order: Optional[str] = None) -> Parsed:
    """Predicts the driver's answer to a value of ``CUDA_VISIBLE_DEVICES``.

    :param text: the value; ``None`` where the variable is not set.
    :param devices: the UUIDs (``GPU-xxxxxxxx-xxxx-…``) of all GPUs, in the order in which CUDA would
        number them without a mask. ``nvidia-smi --query-gpu=uuid --format=csv,noheader`` prints them in
        PCI order, which is that order on equal GPUs.
    :param order: the value of ``CUDA_DEVICE_ORDER``; ``None`` where it is not set.
    :raises TypeError: ``devices`` is one string, which would be taken for a list of letters.
    """
    if isinstance(devices, str):
        raise TypeError("devices is a list of UUIDs, not one string")
    if order not in (None, "FASTEST_FIRST", "PCI_BUS_ID"):
        return Parsed("CUDA_ERROR_INVALID_DEVICE", ())
    named = []
    if text is None:
        named.extend(range(len(devices)))
    else:
        # The first entry decides how all are read.
        read = _by_ordinal if _digits_of(text) is None else _by_uuid
        for entry in text.split(","):
            gpu = read(entry, devices)
            if gpu is None:
                break
            if gpu in named:
                return Parsed("CUDA_ERROR_INVALID_DEVICE", ())
            named.append(gpu)
    return Parsed("CUDA_SUCCESS" if named else "CUDA_ERROR_NO_DEVICE", tuple(named))


#: The digits of a whole UUID.
_WHOLE = 32

#: What C's ``isspace`` and ``isdigit`` accept, and no other character of Unicode.
_ORDINAL = re.compile("[ \t\n\v\f\r]*([+-]?)(0*)([0-9]*)")

_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")

_ULONG_MAX = 2**64 - 1


def _digits_of(entry: str) -> Optional[str]:
    """What follows that which makes an entry a UUID."""
    return entry[4:] if entry.startswith(("GPU-", "MIG-")) else None


def _by_ordinal(entry: str, devices: Sequence[str]) -> Optional[int]:
    """The GPU whose index an entry begins with: ``strtoull``, of whose 64 bits the lower 32 count."""
    match = _ORDINAL.match(entry)
    sign, zeros, digits = match.groups() if match else ("", "", "")
    if not zeros and not digits:
        return None
    # 2**64 has 20 digits. Python refuses to convert a few thousand.
    value = int(digits or "0") if len(digits) <= 20 else _ULONG_MAX + 1
    if value > _ULONG_MAX:
        # Out of range is ULONG_MAX, whatever the sign.
        value = _ULONG_MAX
    elif sign == "-":
        value = -value & _ULONG_MAX
    index = value & 0xFFFFFFFF
    return index if index < len(devices) else None


def _by_uuid(entry: str, devices: Sequence[str]) -> Optional[int]:
    """The one GPU whose UUID begins with an entry's digits."""
    rest = _digits_of(entry)
    if rest is None:
        return None
    wanted = ""
    for character in rest:
        if len(wanted) == _WHOLE:
            break
        if character in _HEX_DIGITS:
            wanted += character.lower()
        elif character != "-":
            return None
    # `GPU-` alone names no GPU, not even where it fits only one.
    if not wanted:
        return None
    fitting = [index for index, uuid in enumerate(devices) if _plain(uuid).startswith(wanted)]
    return fitting[0] if len(fitting) == 1 else None


def _plain(uuid: str) -> str:
    """The digits of a GPU's UUID, in lower case."""
    while uuid.startswith("GPU-"):
        uuid = uuid[4:]
    return uuid.replace("-", "").lower()


class Vector(NamedTuple):
    """What a real driver did with one value of ``CUDA_VISIBLE_DEVICES``."""

    #: The value; ``None`` where the variable was not set.
    mask: Optional[str]
    #: The value of ``CUDA_DEVICE_ORDER`` in the same process; ``None`` where it was not set.
    order: Optional[str]
    #: The UUIDs of all GPUs of the machine, in PCI order, in which NVML numbers them.
    devices: Tuple[str, ...]
    #: What ``cuInit`` returned, by its C name.
    status: str
    #: The visible GPUs in the order in which CUDA numbered them, as indices into ``devices``; empty
    #: unless ``cuInit`` succeeded.
    gpus: Tuple[int, ...]
    #: Which sort of value it is, such as ``Numbers``; ``Generated`` for those that a generator made; or the
    #: scenario that asked it, such as ``visibility/uuid-twice``.
    group: str
    #: Why it was asked; empty for a generated one.
    note: str
    #: How many fresh processes were asked. All gave this answer.
    attempts: int
    #: The version of the driver.
    driver_version: str


def vectors() -> List[Vector]:
    """The values that were measured, with what the driver did.

    ``mask_vectors.json`` beside this module has the same and where it comes from. Within a major
    version of its schema no field is removed and none changes its meaning. New vectors, of other
    machines and drivers too, may come with any release.
    """
    document = json.loads(_data("mask_vectors.json").decode("utf-8"))
    found = []
    for row in document["vectors"]:
        machine = document["machines"][row["machine"]]
        found.append(
            Vector(
                mask=row["mask"],
                order=row["order"],
                devices=tuple(gpu["uuid"] for gpu in machine["gpus"]),
                status=row["status"],
                gpus=tuple(row["gpus"]),
                group=row["group"],
                note=row["note"],
                attempts=row["attempts"],
                driver_version=machine["driver_version"],
            )
        )
    return found


def _data(name: str) -> bytes:
    """A file of this package, also where the package is in an archive."""
    # Not at the top: importing it takes longer than all the rest of this module.
    from importlib import resources

    if hasattr(resources, "files"):
        return resources.files("cuda_pitfalls").joinpath(name).read_bytes()
    # Python 3.8.
    return resources.read_binary("cuda_pitfalls", name)
