"""The program ``cuda-pitfalls``: where it is, what it is started for, and what its trace says."""

import json
import linecache
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from . import kept
from .frameworks import PACKAGES

#: Packages that import a file of tests, and the import system.
_RUNNERS = frozenset("pytest _pytest pluggy xdist execnet pytest_forked pytest_cuda_pitfalls pytest_asyncio".split())
#: What the driver of a trace without a GPU refuses, and a real one answers before ``cuInit``.
_REFUSED = "cuGetExportTable"
#: The most lines of a chain that are shown.
_MOST_LINES = 24


#: How the program is installed for this Python.
_INSTALL = "`%s -m pip install cuda-pitfalls` installs it, or `pip install .` in a checkout of it" % sys.executable


class ProgramError(Exception):
    """The program is not there, or it could not answer."""


def find(named: Optional[str]) -> str:
    """The path of the program: the one that was named, or that of this Python, or the first on PATH.

    :raises ProgramError: it is not there.
    """
    path = shutil.which(named) if named else _installed()
    if path is None:
        wanted = "the program `%s` is not there" % named if named else (
            "the program `cuda-pitfalls` is neither beside this Python nor on PATH: %s" % _INSTALL
        )
        raise ProgramError(wanted)
    return path


def _installed() -> Optional[str]:
    try:
        from cuda_pitfalls.__main__ import program
    except ImportError:
        # The program came another way than as a wheel.
        return shutil.which("cuda-pitfalls")
    path: Optional[str] = program()
    return path


def lay_out_stand_in(program: str, folder: str) -> str:
    """Makes the stand-in for libcuda in ``folder``, and returns its path."""
    done = subprocess.run([program, "__stand-in", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise ProgramError(done.stderr.decode(errors="replace").strip())
    return os.fsdecode(done.stdout.rstrip(b"\n"))


class Gpu(NamedTuple):
    """A GPU that the mask of this process shows."""

    #: Its UUID.
    uuid: str
    #: Its index in NVML's order.
    index: int


class Visible(NamedTuple):
    """The GPUs of this machine."""

    #: Those that the mask of the environment shows, in CUDA's order.
    gpus: List[Gpu]
    #: How many NVML lists.
    total: int


def visible(program: str) -> Visible:
    """The GPUs of this machine, as the mask of the environment shows them; no CUDA call is made.

    :raises ProgramError: NVML does not answer.
    """
    done = subprocess.run([program, "mask", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ProgramError(lines[0].split(": ", 1)[-1] if lines else "`mask` ended with %d" % done.returncode)
    answer = json.loads(done.stdout)
    index = {gpu["uuid"]: number for number, gpu in enumerate(answer["gpus"])}
    return Visible([Gpu(uuid, index[uuid]) for uuid in answer["visible"]], len(index))


class Line(NamedTuple):
    """A line of code in the way to a call."""

    #: As it is shown.
    file: str
    line: int
    source: str
    #: The same file, from the root; the module that it is; the function.
    path: str
    module: str
    function: str


class Way(NamedTuple):
    """How a program came to ``cuInit``."""

    #: The line that did it: the innermost one that is not a framework's.
    at: Line
    #: All lines from the outermost to that one.
    chain: List[Line]
    #: The functions from there to the call, outermost first.
    calls: List[str]

    def text(self) -> str:
        """For a report: the line, and how it was reached."""
        lines = ["  %s:%d: %s" % line[:3] for line in self.chain]
        if len(lines) > _MOST_LINES:
            half = _MOST_LINES // 2
            lines[half:-half] = ["  ... %d more lines ..." % (len(lines) - 2 * half)]
        return "\n".join(lines + ["  " + " -> ".join(self.calls)])


class Traced(NamedTuple):
    """What a trace says of a command."""

    #: The summary, as ``trace --json`` writes it; ``None`` if there is none.
    summary: Optional[Dict[str, Any]]
    #: How it came to the first ``cuInit``; ``None`` if it did not, or if no line of Python did it.
    way: Optional[Way]
    #: How the program itself, not one that it started, came to each ``cuInit`` and to each context that it made; and to
    #: calls after which a library may have given up, so that whether it would call ``cuInit`` is not known.
    ways: List[Way]
    gave_up: List[Way]
    #: Then the functions that did it, outermost first; empty if it did not, or if they are not known.
    native: List[str]
    #: Why not: on a busy machine a thread may not be looked at in time.
    unread: Optional[str]
    #: The exit code.
    code: int
    #: What the command printed.
    stdout: str
    #: What it printed on stderr, and after it what the trace says.
    stderr: str


def trace(
    program: str,
    command: Sequence[str],
    folder: str,
    options: Sequence[str] = (),
    env: Optional[Dict[str, str]] = None,
    cwd: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Traced:
    """Runs a command under ``trace``; documents go to ``folder``."""
    summary = os.path.join(folder, "summary.json")
    argv = [program, "trace", "--out", folder, "--json=" + summary, *options, "--", *command]
    ended = kept.run(argv, folder, env, cwd, timeout)
    told = None
    if os.path.exists(summary):
        with open(summary) as text:
            told = json.load(text)
    cwd = cwd or os.getcwd()
    events = _events(folder)
    event = next((event for event in events if event["event"] == "init"), None)
    way = way_to(event, cwd) if event else None
    own = [(event["event"], way_to(event, cwd)) for event in events if event["pid"] == events[0]["pid"]]
    inits, gave_up = ([way for kind, way in own if kind in kinds and way] for kinds in (("init", "context"), ("error",)))
    unread = (event.get("stack") or {}).get("missing") if event and not way else None
    native = _native(event) if event and not way and not unread else []
    return Traced(told, way, inits, gave_up, native, unread, ended.code, ended.stdout, ended.stderr)


def _events(folder: str) -> List[Dict[str, Any]]:
    """The calls of ``cuInit``, those that made a context, and those that the fake driver refused before ``cuInit``, from the
    document of a trace, after the line of the program itself."""
    told: List[Dict[str, Any]] = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "trace.ndjson")
        if not os.path.exists(path):
            continue
        with open(path) as lines:
            # One that was killed has not written its last line to the end.
            for event in (json.loads(line) for line in lines if line.endswith("\n")):
                if event["line"] == "process" and not told:
                    told.append({**event, "event": "process"})
                elif (event.get("event"), event.get("change")) in (("init", None), ("context", "made")):
                    told.append(event)
                elif (event.get("event"), event.get("call")) == ("error", _REFUSED):
                    told.append(event)
    return told


def _native(event: Dict[str, Any]) -> List[str]:
    """The functions of machine code in a stack, each once, and the call."""
    frames = reversed((event.get("stack") or {}).get("frames") or ())
    names = [frame["function"] or os.path.basename(frame.get("module") or "") for frame in frames]
    return list(dict.fromkeys(name for name in names if name)) + [event.get("call") or "cuInit"]


def way_to(event: Dict[str, Any], cwd: str) -> Optional[Way]:
    """The way to a call, from the frames of its stack, which are innermost first."""
    stack = event.get("stack") or {}
    frames = [frame for frame in stack.get("frames") or stack.get("meanwhile") or () if frame["language"] == "python"]
    frames = [frame for frame in reversed(frames) if frame.get("line") and not _is_system(frame)]
    named = [(frame, _module(os.path.join(cwd, frame["file"]))) for frame in frames]
    named = [(frame, module) for frame, module in named if _package(frame, module) not in _RUNNERS]
    if not named:
        return None
    # A framework that does it while it is imported does it by its own line.
    own = [
        number
        for number, (frame, module) in enumerate(named)
        if _package(frame, module) not in PACKAGES or frame["function"] == "<module>"
    ]
    # Where all is a framework's, its innermost line is the one.
    last = own[-1] if own else len(named) - 1
    chain = [_line(frame, module, cwd) for frame, module in named[: last + 1]]
    calls = ["%s.%s" % (module, frame["function"]) for frame, module in named[last + 1 :]]
    # Between the first and the last function of a framework are only its own affairs.
    calls = calls[:1] + calls[1:][-1:] + [event.get("call") or "cuInit"]
    return Way(chain[-1], chain, calls)


def _is_system(frame: Dict[str, Any]) -> bool:
    return bool(frame["owner"] == "system" or frame["file"] == "<string>")


def _line(frame: Dict[str, Any], module: str, cwd: str) -> Line:
    path = os.path.join(cwd, frame["file"])
    return Line(_shown(frame["file"], cwd), frame["line"], _source(frame, cwd), path, module, frame["function"])


def _package(frame: Dict[str, Any], module: str) -> str:
    """Whose code it is: the folder below `site-packages`, which need not be a package itself, or the outermost package."""
    return frame.get("package") or module.partition(".")[0]


@lru_cache(maxsize=None)
def _module(path: str) -> str:
    """The name by which a file is imported, from the folders around it that are packages, wherever they lie."""
    folder, name = os.path.split(path)
    parts = [] if name == "__init__.py" else [os.path.splitext(name)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    return ".".join(parts) or path


def _shown(path: str, cwd: str) -> str:
    """A path below the folder that pytest was started in is told from there, that of a package from `site-packages`."""
    below = os.path.relpath(path, cwd) if os.path.isabs(path) else path
    if not below.startswith(os.pardir):
        return below
    for folder in ("site-packages", "dist-packages"):
        head, between, rest = path.rpartition(os.sep + folder + os.sep)
        if between:
            return os.path.join("...", folder, rest)
    return path


def _source(frame: Dict[str, Any], cwd: str) -> str:
    return linecache.getline(os.path.join(cwd, frame["file"]), frame["line"]).strip() or frame["function"]
