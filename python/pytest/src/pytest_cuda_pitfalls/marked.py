"""Tests that are marked: where each runs, and what is said of one that does what it may not."""

from typing import Any, Iterator, List, Optional

import pytest

from . import child, policy, program
from .guard import Guard
from .project import Judged


def is_import_of_the_file(judged: Judged) -> bool:
    """Whether a way to ``cuInit`` is not the test's: its file imports something of somebody else's."""
    return judged.is_foreign and (judged.own is None or judged.own.function == "<module>")


class MarkedTests:
    """The hooks of a run that has such tests."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        #: The test that must be clean and runs in this process now.
        self._clean_item: Optional[str] = None
        #: Whether CUDA was initialized before it began.
        self._was_initialised = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: Optional[pytest.Item]) -> Any:
        marks = {mark.name for mark in item.iter_markers()}
        is_clean = "cuda_clean" in marks
        is_traced = bool(marks & {"cuda_contexts", "no_stray_context"})
        return self._runs(item, nextitem, is_clean, is_traced) if is_clean or is_traced else None

    def _runs(self, item: pytest.Item, nextitem: Optional[pytest.Item], is_clean: bool, is_traced: bool) -> Any:
        """Runs a marked test in a process of its own, if it needs one; ``None`` lets pytest run it here."""
        task = child.task(self._guard.config)
        if task is not None:
            self._clean_item = item.nodeid if task.get("clean") else None
            if self._clean_item:
                self._guard.prepare()
                self._was_initialised = self._guard.initialised()
            return None
        if not is_traced and not self._guard.initialised():
            self._guard.prepare()
            self._clean_item = item.nodeid
            return None
        self._clean_item = None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._elsewhere(item, is_clean, is_traced):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # What is left of the test before, and is not the next one's, is taken down as if this one had run here.
        down = item.session._setupstate.teardown_exact  # type: ignore[attr-defined]
        call = pytest.CallInfo.from_call(lambda: down(nextitem), when="teardown", reraise=(KeyboardInterrupt,))
        if call.excinfo is not None:
            item.ihook.pytest_runtest_logreport(report=item.ihook.pytest_runtest_makereport(item=item, call=call))
        return True

    def _elsewhere(self, item: pytest.Item, is_clean: bool, is_traced: bool) -> List[pytest.TestReport]:
        """The reports of a test that runs in a process of its own."""
        if not is_traced:
            return child.rerun(self._guard.config, item, is_clean, self._guard.program(), None)[0]
        try:
            marked = policy.Marked.of(item)
            wanted = marked.on(program.visible(self._guard.program()))
        except program.ProgramError as error:
            return [policy.skipped(item, "contexts are made on GPUs, and none answers: %s" % error)]
        except policy.MarkError as error:
            return [child.failed(item, "setup", str(error))]
        reports, traced = child.rerun(self._guard.config, item, is_clean, self._guard.program(), wanted.options())
        said = wanted.verdict(traced)
        for report in reports:
            if said and report.when == "call" and report.passed:
                report.outcome, report.longrepr = "failed", said
        return reports

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: "pytest.CallInfo[None]") -> Iterator[None]:
        outcome = yield
        # Where it was initialized before, one look shows who did so while the test ran, if anybody.
        if self._clean_item != item.nodeid or call.when == "teardown" or (self._was_initialised and call.when == "setup"):
            return
        report: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
        if report.passed and self._guard.is_suspect():
            head = "CUDA was initialized by " + {"setup": "a fixture of this test", "call": "this test"}[call.when]
            head += ", or by what it imports" if self._was_initialised else ""
            told = self._guard.explain([(head, [child.target(item)])], ["-q"], item.nodeid, is_import_of_the_file)
            if told is not None:
                # A test that is expected to fail has failed now.
                report.outcome = "skipped" if hasattr(report, "wasxfail") else "failed"
                report.longrepr = told
