"""Watches over one run: what collects, which tests must be clean, and what is said of those that are not."""

import json
import os
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import pytest

from . import child, kept, program, sarif
from .frameworks import DOORS
from .probe import Probe, can_initialise
from .program import Traced
from .project import Judged, Project

#: How often a run is traced whose line was not read in time.
_ATTEMPTS = 3


class Found:
    """What is shown of a failure in place of a traceback: the line in the summary, the way to it above."""

    class _Crash:
        def __init__(self, path: str, lineno: int, message: str) -> None:
            self.path, self.lineno, self.message = path, lineno, message

        def __str__(self) -> str:
            return self.message

    def __init__(self, head: str, judged: Judged, why: str = "") -> None:
        # A worker of pytest-xdist hands on the text alone: its first line has to say where.
        first = "%s, at %s" % (head, judged.place())
        line = judged.own or judged.way.at
        self._text = "\n".join(filter(None, (first, judged.way.text(), why)))
        self.reprcrash = self._Crash(line.file, line.line, "%s: %s" % (judged.place(), head))

    def toterminal(self, writer: Any) -> None:
        writer.line(self._text)

    def __str__(self) -> str:
        return self._text


def _functions(ways: List[Judged]) -> List[List[str]]:
    """The functions by which these ways came to ``cuInit``: each calls it once, so their later callers are looked at."""
    functions = [function for judged in ways for function in judged.way.reached]
    for module, doors in DOORS.items():
        file = getattr(sys.modules.get(module), "__file__", None)
        functions += [[file, door] for door in doors if file and ways]
    return sorted(set(map(tuple, functions)))  # type: ignore[arg-type]


def _jax_chooses() -> List[List[str]]:
    """The function by which JAX chooses where it computes, if it has chosen in this process and has a plugin for CUDA.
    Before it calls ``cuInit`` it asks CUPTI and looks for files of the driver, and gives up without."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    has_plugin = any(name.startswith("jax_plugins.xla_cuda") for name in sys.modules)
    has_chosen = has_plugin and getattr(bridge, "_backends", None)
    return [[str(getattr(bridge, "__file__", "")), "backends"]] if has_chosen else []


def _remedies(traced: Traced, judged: Judged) -> str:
    """What to do instead: what holds for every line, and what the pitfalls say that the trace found at this one."""
    found = ["Ask for CUDA in the body of a test or in a fixture, or in a function that a test calls."]
    lines = [(line.path, line.line) for line in (judged.own, judged.way.at) if line is not None]
    for finding in (traced.summary or {}).get("findings", ()):
        at = finding["at"]
        if finding["severity"] == "pitfall" and at and (os.path.abspath(at["file"]), at["line"]) in lines:
            found.append(finding["workaround"])
    return "\n".join("Instead: " + workaround for workaround in dict.fromkeys(found))


class Guard:
    """The state of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._program = self._find()
        self._probe = Probe()
        self._project = Project(config)
        #: The function by which JAX has chosen where it computes, if it has.
        self._jax: List[List[str]] = []
        #: Whether collecting must not initialise CUDA.
        self._watches_collection = False
        #: Whether this process, or the one that it was forked of, has initialised CUDA.
        self.was_initialised = False
        #: Whether a real driver can start in a process of this environment.
        self._is_real = can_initialise(self._has_visible)
        #: What was found, a document of each trace that found something.
        self.sarif: List[Dict[str, Any]] = []

    # What there is.

    def _find(self) -> str:
        try:
            return program.find(self.config.known_args_namespace.cuda_program)
        except program.ProgramError as error:
            raise pytest.UsageError("cuda-pitfalls: %s" % error)

    def _has_visible(self) -> bool:
        try:
            return bool(program.visible(self._program).gpus)
        except program.ProgramError:
            # Without NVML nothing is certain.
            return True

    def program(self) -> str:
        return self._program

    def begin(self) -> None:
        """Watches from here on."""
        task = child.task(self.config)
        self._watches_collection = task is None
        # A child that is traced has the libcuda of the trace.
        if task is None or task.get("clean"):
            self.prepare()

    def prepare(self) -> None:
        """Where no driver can start, a stand-in has to be loaded before any other libcuda."""
        if self._probe.is_stand_in or self._is_real:
            return
        try:
            self._probe.stand_in(lambda folder: program.lay_out_stand_in(self.program(), folder))
        except program.ProgramError as error:
            raise pytest.UsageError("cuda-pitfalls: %s" % error)

    def witness(self) -> str:
        """Who answers, for the header of the run."""
        if self._is_real:
            return "asked is this machine's libcuda"
        if self._probe.is_stand_in:
            return "no GPU is visible, so a stand-in for libcuda counts cuInit; what needs a GPU is not reached"
        return "no GPU is visible"

    def initialised(self) -> bool:
        """Whether CUDA is initialised in this process."""
        if not self.was_initialised and self._probe.initialised():
            self.was_initialised = True
        return self.was_initialised

    def is_suspect(self) -> bool:
        """Whether CUDA is initialised in this process, or a library may have given up before that."""
        before, self._jax = self._jax, self._jax or (_jax_chooses() if self._probe.is_stand_in else [])
        return self.initialised() or self._probe.gave_up() or self._jax != before

    # Collecting.

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        was = self.was_initialised
        before = self._watches_collection and not was and self.initialised()
        outcome = yield
        if not self._watches_collection or was or not self.is_suspect():
            return
        report: pytest.CollectReport = outcome.get_result()  # type: ignore[attr-defined]
        path = getattr(collector, "path", None)
        path = None if before or not path or not os.path.isfile(str(path)) else str(path)
        # The file alone comes to it sooner than all that this run collects, if it does.
        runs = [("CUDA was initialised while this file was imported", [path])] if path else []
        runs.append(("CUDA was initialised while tests were collected", self._collected()))
        told = self.explain(runs, ["--collect-only", "-q"], collector.nodeid, lambda judged: judged.is_foreign)
        if told is not None:
            report.outcome, report.longrepr, report.result = "failed", told, []

    def _collected(self) -> List[str]:
        return list(getattr(self.config.option, "file_or_dir", None) or ())

    def explain(
        self,
        runs: Sequence[Tuple[str, Sequence[str]]],
        options: Sequence[str],
        nodeid: str,
        warns: Callable[[Judged], bool],
    ) -> Any:
        """What a report shows: the line, found by one of these runs of pytest under a trace, each with what is said of
        it. ``None`` if all lines are allowed, or ``warns`` says of them that a warning is enough, or if a machine with
        GPUs would not call ``cuInit`` there."""
        before = len(self.sarif)
        told = self._explain(runs, options, nodeid, warns)
        if told is None:
            # What is allowed is no result.
            del self.sarif[before:]
        return told

    def _explain(
        self,
        runs: Sequence[Tuple[str, Sequence[str]]],
        options: Sequence[str],
        nodeid: str,
        warns: Callable[[Judged], bool],
    ) -> Any:
        queue, watched, excused = list(runs), self._jax, []
        while queue:
            said, targets = queue.pop(0)
            for _ in range(_ATTEMPTS):
                traced, ways, called, ended = self._traced([*options, *targets], watched)
                if not traced.unread:
                    break
            ways += called if self.initialised() else []
            for judged in ways:
                if not judged.is_allowed and not warns(judged):
                    return Found(said, judged, _remedies(traced, judged))
            if traced.native and not ways:
                return "%s\nno line of Python did it: %s" % (said, " -> ".join(traced.native))
            excused += ways
            if not excused and not self.initialised():
                break
            before, watched = watched, self._jax + _functions(excused)
            if watched != before and not queue:
                queue.append((said, targets))
        head, undecided = runs[0][0], traced.summary["undecided"] if traced.summary else ["the trace has no summary"]
        if excused:
            known = ", which is no line of this project; if it is known, say `cuda_clean_allow = %s`"
            lines = ["%s, at %s%s" % (head, one.place(), known % one.module()) for one in excused if not one.is_allowed]
            # Those of pytest's exit codes by which all was collected, or run.
            if undecided or ended not in (0, 1, 2, 5):
                why = "; ".join(undecided) or "once more, under a trace, it did not come to its end"
                lines.append("undecided whether another line does so too, after %s: %s" % (excused[0].place(), why))
            return self._warn(list(dict.fromkeys(lines)))
        if not self.initialised():
            gave_up = called + [self._project.judge(way) for way in traced.gave_up]
            return self._undecided(head, gave_up, undecided, warns)
        if traced.unread:
            return "%s\nits line is not known: %s" % (head, traced.unread)
        if ended not in (0, 1) or undecided:
            output = (traced.stdout + traced.stderr)[-2000:]
            return "%s\nits line is not known, since once more, under a trace, it did not come to its end\n%s" % (head, output)
        if not self._probe.is_stand_in:
            return "%s\nonce more, under a trace, it was not: the line is not known" % head
        why = "by code that counts GPUs; beside NVML, as on a machine with GPUs, it does not call cuInit"
        return self._warn(["%s: %s, %s" % (nodeid or "collection", head, why)])

    def _undecided(self, head: str, ways: List[Judged], undecided: List[str], warns: Callable[[Judged], bool]) -> Any:
        """What a report shows where a library gave up before ``cuInit``: nobody knows what it does on a machine with
        GPUs. That is no pass, unless the line is allowed."""
        if not undecided and not ways:
            return None
        why = "without a GPU a library gave up before it called cuInit; on a machine with GPUs it may call it"
        why = ": ".join([why, *undecided])
        head = "undecided whether " + head
        for judged in ways:
            if not judged.is_allowed and not warns(judged):
                return Found(head, judged, why)
        if not ways:
            return "%s\n%s" % (head, why)
        return self._warn(["%s, at %s: %s" % (head, one.place(), why) for one in ways[:1] if not one.is_allowed])

    def _warn(self, lines: List[str]) -> Optional[str]:
        """Warns; what a report shows where warnings are errors in this run."""
        try:
            for line in lines:
                warnings.warn(pytest.PytestWarning("cuda-pitfalls: " + line))
        except pytest.PytestWarning:
            return "\n".join(lines)
        return None

    def _traced(
        self, arguments: Sequence[str], watched: List[List[str]]
    ) -> "Tuple[Traced, List[Judged], List[Judged], Optional[int]]":
        """A run of pytest under a trace: how it came to ``cuInit``, and to calls of the functions that are watched, and how
        it ended."""
        config = self.config
        with kept.Folder() as folder:
            asked = child.command(config, arguments, folder)
            where = [] if self._is_real else ["--on", "sim:no-device"]
            options = [*where, "--forbid", "cuinit", *self.gathering(folder)]
            told, cwd = os.path.join(folder, "reports"), child.folder_of(config)
            env = child.environment({"reports": told, "watch": watched})
            traced = program.trace(self.program(), asked, folder, options, env, cwd, child.LIMIT_S)
            self.gather(folder)
            said = child.read(config, told)
            inits = traced.ways or ([traced.way] if traced.way else [])
            ways = (inits, [program.way_to(event, cwd) for event in said.called])
            init, called = ([self._project.judge(way) for way in some if way] for some in ways)
            return traced, init, called, said.ended

    # SARIF.

    def gathering(self, folder: str) -> List[str]:
        """The options by which a trace writes what is gathered."""
        wanted = self.config.getoption("cuda_sarif")
        return ["--sarif", os.path.join(folder, "trace.sarif")] if wanted else []

    def gather(self, folder: str) -> None:
        path = os.path.join(folder, "trace.sarif")
        if os.path.exists(path):
            with open(path) as text:
                self.sarif.append(json.load(text))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        self.sarif += getattr(node, "workeroutput", {}).get("cuda_sarif", [])

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        output = getattr(self.config, "workeroutput", None)
        path = self.config.getoption("cuda_sarif")
        if output is not None:
            output["cuda_sarif"] = self.sarif
        elif path and child.task(self.config) is None:
            sarif.write(path, self.sarif)
