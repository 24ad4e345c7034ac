"""Watches over one run: what collects, which tests must be clean, and what is said of those that are not."""

import json
import os
import tempfile
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence

import pytest

from . import child, program, sarif
from .probe import Probe, can_initialise


class Found:
    """What is shown of a failure in place of a traceback: the line in the summary, the way to it above."""

    class _Crash:
        def __init__(self, path: str, lineno: int, message: str) -> None:
            self.path, self.lineno, self.message = path, lineno, message

        def __str__(self) -> str:
            return "%s:%d: %s" % (self.path, self.lineno, self.message)

    def __init__(self, head: str, way: "program.Way") -> None:
        # A worker of pytest-xdist hands on the text alone: its first line has to say where.
        first = "%s, at %s:%d" % (head, way.at.file, way.at.line)
        self._text = "%s\n%s" % (first, way.text())
        self.reprcrash = self._Crash(way.at.file, way.at.line, first)

    def toterminal(self, writer: Any) -> None:
        writer.line(self._text)

    def __str__(self) -> str:
        return self._text


class Guard:
    """The state of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._probe = Probe()
        self._found_program: Optional[str] = None
        #: Whether collecting must not initialise CUDA.
        self._watches_collection = False
        #: Whether this process, or the one that it was forked of, has initialised CUDA.
        self.was_initialised = False
        #: Whether a real driver can start in a process of this environment.
        self._is_real = can_initialise()
        #: What was found, a document of each trace that found something.
        self.sarif: List[Dict[str, Any]] = []

    # What there is.

    def program(self) -> str:
        if self._found_program is None:
            named = self.config.known_args_namespace.cuda_program
            try:
                self._found_program = program.find(named)
            except program.ProgramError as error:
                raise pytest.UsageError("cuda-pitfalls: %s" % error)
        return self._found_program

    def begin(self) -> None:
        """Watches from here on."""
        if child.task() is None:
            self._watches_collection = True
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

    # Collecting.

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        was = self.was_initialised
        before = self._watches_collection and not was and self.initialised()
        outcome = yield
        if not self._watches_collection or was or not self.initialised():
            return
        report: pytest.CollectReport = outcome.get_result()  # type: ignore[attr-defined]
        path = getattr(collector, "path", None)
        path = None if before or not path or not os.path.isfile(str(path)) else str(path)
        told = self.explain(
            "CUDA was initialised %s" % ("while this file was imported" if path else "before a test file was imported"),
            # The file alone comes to it sooner than all that this run collects, if it does.
            [[path]] * bool(path) + [self._collected()],
            ["--collect-only", "-q"],
        )
        if told is not None:
            report.outcome, report.longrepr, report.result = "failed", told, []

    def _collected(self) -> List[str]:
        return list(getattr(self.config.option, "file_or_dir", None) or ())

    def explain(self, head: str, runs: Sequence[Sequence[str]], options: Sequence[str]) -> Any:
        """What a report shows: the line, found by one of these runs of pytest under a trace. ``None`` if a machine with
        GPUs would not call ``cuInit`` there."""
        for targets in runs:
            traced = self._traced([*options, *targets])
            if traced.way is not None:
                return Found(head, traced.way)
        if traced.summary is None or traced.summary["undecided"]:
            return "%s\nits line is not known: the trace did not see it\n%s" % (head, traced.stderr[-2000:])
        if not self._probe.is_stand_in:
            return "%s\nonce more, under a trace, it was not: the line is not known" % head
        text = "%s by code that counts GPUs; beside NVML, as on a machine with GPUs, it does not call cuInit" % head
        warnings.warn(pytest.PytestWarning("cuda-pitfalls: " + text))
        return None

    def _traced(self, arguments: Sequence[str]) -> "program.Traced":
        config = self.config
        with tempfile.TemporaryDirectory(prefix="cuda-pitfalls-") as folder:
            asked = child.command(config, arguments, folder)
            where = [] if self._is_real else ["--on", "sim:no-device"]
            options = [*where, "--forbid", "cuinit", *self.gathering(folder)]
            env = child.environment({"does": "explain"})
            traced = program.trace(
                self.program(), asked, folder, options, env, child.folder_of(config), child.LIMIT_S
            )
            self.gather(folder)
        return traced

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
        elif path and child.task() is None:
            sarif.write(path, self.sarif)
