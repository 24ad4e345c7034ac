"""The fixture ``cuda_process``: code in a fresh process."""

import os
import subprocess
import sys
import textwrap
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import pytest

from . import kept, program

_MASK = "CUDA_VISIBLE_DEVICES"


class _Inherited:
    def __repr__(self) -> str:
        return "the mask of this process"


INHERITED = _Inherited()


class Finished(NamedTuple):
    """A process that has ended."""

    #: Its exit code; below 0 the number of the signal that ended it.
    returncode: int
    #: What it printed.
    stdout: str
    #: What it printed on stderr; of a traced process followed by what the trace says.
    stderr: str
    #: How it came to ``cuInit``, if it was traced and did: ``.at`` is the line.
    way: Optional["program.Way"]
    #: The contexts that it made, as the summary of ``trace`` has them; empty if it was not traced.
    contexts: List[Dict[str, Any]]


class CudaProcess:
    """Runs code of Python, or a command, in a process that has no CUDA yet."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(
        self,
        code: Union[str, Sequence[str]],
        mask: Union[str, None, _Inherited] = INHERITED,
        env: Optional[Dict[str, str]] = None,
        timeout: float = 120,
        trace: bool = False,
    ) -> Finished:
        """Runs ``code``, text of Python or the words of a command, to its end.

        :param mask: ``CUDA_VISIBLE_DEVICES``; ``None`` runs it without the variable.
        :param env: variables beside those of this process.
        :param timeout: in seconds; the process is ended then, with all that it started.
        :param trace: whether to see its contexts and the line that initializes CUDA, under ``cuda-pitfalls trace``.
        :raises subprocess.TimeoutExpired: it did not end in time (not where it is traced: its exit code says so).
        """
        command = [sys.executable, "-c", textwrap.dedent(code)] if isinstance(code, str) else list(code)
        variables = {**os.environ, **(env or {})}
        if mask is None:
            variables.pop(_MASK, None)
        elif not isinstance(mask, _Inherited):
            variables[_MASK] = mask
        if not trace:
            with kept.Folder() as folder:
                done = kept.run(command, folder, variables, None, timeout)
            if done.is_late:
                raise subprocess.TimeoutExpired(command, timeout, done.stdout, done.stderr)
            return Finished(done.code, done.stdout, done.stderr, None, [])
        found = program.find(self._config.getoption("cuda_program"))
        with kept.Folder() as folder:
            traced = program.trace(found, command, folder, (), variables, None, timeout)
        contexts = traced.summary["contexts"] if traced.summary else []
        return Finished(traced.code, traced.stdout, traced.stderr, traced.way, contexts)
