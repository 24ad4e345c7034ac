"""Watches over one run: what collects, which tests must be clean, and what is said of those that are not."""

import os
import sys
import warnings
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import pytest

from . import child, kept, program, verdict
from .probe import Probe, can_initialise
from .program import Traced
from .project import Judged, Project
from .verdict import Attempt

#: How often a run is traced whose line was not read in time.
_ATTEMPTS = 3


def _jax_has_chosen() -> bool:
    """Whether JAX has chosen in this process where it computes, and has a plugin for CUDA. Before it calls ``cuInit`` it
    asks CUPTI and looks for files of the driver, and gives up without."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    has_plugin = any(name.startswith("jax_plugins.xla_cuda") for name in sys.modules)
    return has_plugin and bool(getattr(bridge, "_backends", None))


class Guard:
    """The state of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._program = self._find()
        self._probe = Probe()
        self._project = Project(config)
        #: Whether JAX has chosen where it computes.
        self._jax_has_chosen = False
        #: Whether collecting must not initialize CUDA.
        self._watches_collection = False
        #: Whether this process, or the one that it was forked of, has initialized CUDA.
        self.was_initialised = False
        #: Whether a real driver can start in a process of this environment.
        self._is_real = can_initialise(self._has_visible)

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
        """Whether CUDA is initialized in this process."""
        if not self.was_initialised and self._probe.initialised():
            self.was_initialised = True
        return self.was_initialised

    def is_suspect(self) -> bool:
        """Whether CUDA is initialized in this process, or a library may have given up before that."""
        before = self._jax_has_chosen
        if self._probe.is_stand_in and not self._project.is_allowed("jax"):
            self._jax_has_chosen = before or _jax_has_chosen()
        return self.initialised() or self._probe.gave_up() or self._jax_has_chosen != before

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
        runs = [("CUDA was initialized while this file was imported", [path])] if path else []
        runs.append(("CUDA was initialized while tests were collected", self._collected()))
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
        is_excused: Callable[[Judged], bool],
    ) -> Any:
        """What a report shows: the line, found by one of these runs of pytest under a trace, each with what is said of
        it. ``None`` if all lines are allowed, or a warning is enough for those that are not, or if a machine with GPUs
        would not call ``cuInit`` there."""
        ways: List[Judged] = []
        for head, targets in runs:
            attempt = self._attempt([*options, *targets])
            ways += attempt.ways
            if attempt.offender(is_excused) or attempt.native or not (ways or self.initialised()):
                break
        else:
            head = runs[0][0]
        # A library that gave up may have asked nothing that a trace sees.
        if self._jax_has_chosen and not attempt.gave_up:
            attempt.undecided.append("JAX has chosen where it computes; if it is known, say `cuda_clean_allow = jax`")
        seen = attempt._replace(ways=ways)
        told = verdict.decide(head, seen, is_excused, self.initialised(), self._probe.is_stand_in)
        if told.failure is not None:
            return told.failure
        return self._warn(["%s: %s" % (nodeid or "collection", line) for line in dict.fromkeys(told.warnings)])

    def _warn(self, lines: List[str]) -> Optional[str]:
        """Warns; what a report shows where warnings are errors in this run."""
        try:
            for line in lines:
                warnings.warn(pytest.PytestWarning("cuda-pitfalls: " + line))
        except pytest.PytestWarning:
            return "\n".join(lines)
        return None

    def _attempt(self, arguments: Sequence[str]) -> Attempt:
        """What a run of pytest under a trace shows, the first one whose line was read."""
        for _ in range(_ATTEMPTS):
            traced, ended = self._traced(arguments)
            if not traced.unread:
                break
        summary = traced.summary or {"undecided": ["the trace has no summary"], "findings": (), "violations": ()}
        unread = traced.unread
        if not unread and (summary["undecided"] or ended not in (0, 1)):
            output = (traced.stdout + traced.stderr)[-2000:]
            unread = "once more, under a trace, the run did not come to its end\n%s" % output
        ways = traced.ways or ([traced.way] if traced.way else [])
        judged, gave_up = ([self._project.judge(way) for way in some] for some in (ways, traced.gave_up))
        native = [] if ways else traced.native
        findings = [*summary["findings"], *summary["violations"]]
        return Attempt(judged, native, gave_up, list(summary["undecided"]), unread, findings)

    def _traced(self, arguments: Sequence[str]) -> "Tuple[Traced, Optional[int]]":
        """A run of pytest under a trace, and how its session ended."""
        with kept.Folder() as folder:
            asked = child.command(self.config, arguments, folder)
            where = [] if self._is_real else ["--on", "sim:no-device"]
            told, cwd = os.path.join(folder, "reports"), child.folder_of(self.config)
            env = child.environment({"reports": told})
            traced = program.trace(
                self.program(), asked, folder, [*where, "--forbid", "cuinit"], env, cwd, child.LIMIT_S
            )
            return traced, child.read(self.config, told).ended
