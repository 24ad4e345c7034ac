"""A GPU for each worker of pytest-xdist, by its UUID, before the worker imports anything."""

from typing import Any, Dict, List

import pytest

from . import program

_MASK = "CUDA_VISIBLE_DEVICES"


def shared(gpus: List[str], workers: List[str]) -> Dict[str, str]:
    """Which worker gets which GPU: in turn, so that no GPU has two workers more than another."""
    return {worker: gpus[number % len(gpus)] for number, worker in enumerate(workers)}


def assign(config: pytest.Config, specs: List[Any]) -> None:
    """Sets the mask of each worker that starts on this machine, and says what was decided."""
    text = _assigned(config, specs)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line("cuda-per-worker: " + text)


def _assigned(config: pytest.Config, specs: List[Any]) -> str:
    try:
        gpus = [gpu.uuid for gpu in program.visible(program.find(config.getoption("cuda_program"))).gpus]
    except program.ProgramError as error:
        return "no worker has a GPU of its own: %s" % error
    # A worker elsewhere has GPUs of its own.
    local: List[Any] = [spec for spec in specs if spec.popen]
    if not gpus or not local:
        return "no worker has a GPU of its own: %s" % ("none is on this machine" if gpus else "no GPU is visible")
    chosen = shared(gpus, [spec.id for spec in local])
    for spec in local:
        spec.env[_MASK] = chosen[spec.id]
    text = ", ".join("%s %s" % (worker, uuid[:12]) for worker, uuid in chosen.items())
    return text + ("; they share %d GPUs" % len(gpus) if len(local) > len(gpus) else "")
