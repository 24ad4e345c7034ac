"""A GPU for each worker of pytest-xdist, by its UUID, before the worker imports anything."""

from typing import Any, Dict, List, Tuple

import pytest

from . import program

_MASK = "CUDA_VISIBLE_DEVICES"
#: What was decided, for the header.
_TOLD: "pytest.StashKey[str]" = pytest.StashKey()


def shared(gpus: List[str], workers: List[str]) -> Dict[str, str]:
    """Which worker gets which GPU: in turn, so that no GPU has two workers more than another."""
    return {worker: gpus[number % len(gpus)] for number, worker in enumerate(workers)}


def assign(config: pytest.Config, specs: List[Any]) -> None:
    """Sets the mask of each worker that starts on this machine."""
    try:
        gpus = [gpu.uuid for gpu in program.visible(program.find(config.getoption("cuda_program"))).gpus]
    except program.ProgramError as error:
        config.stash[_TOLD] = "no worker has a GPU of its own: %s" % error
        return
    # A worker elsewhere has GPUs of its own.
    local: List[Tuple[str, Any]] = [(spec.id, spec) for spec in specs if spec.popen]
    if not gpus or not local:
        config.stash[_TOLD] = "no worker has a GPU of its own: %s" % ("none is here" if gpus else "none is visible")
        return
    chosen = shared(gpus, [worker for worker, _ in local])
    for worker, spec in local:
        spec.env[_MASK] = chosen[worker]
    more = len(local) - len(gpus)
    config.stash[_TOLD] = ", ".join("%s %s" % (worker, uuid[:12]) for worker, uuid in chosen.items()) + (
        "; GPUs are shared, since there are %d" % len(gpus) if more > 0 else ""
    )


def told(config: pytest.Config) -> str:
    """What was decided."""
    return config.stash.get(_TOLD, "there are no workers (pytest-xdist: -n)")
