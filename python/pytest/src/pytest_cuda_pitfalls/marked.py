"""Tests that are marked: where each runs, and what is said of one that does what it may not."""

import tempfile
from typing import Any, Iterator, List, Optional

import pytest

from . import child, policy, program
from .guard import Guard


class MarkedTests:
    """The hooks of a run that has such tests."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        #: The test that must be clean and runs in this process now.
        self._clean_item: Optional[str] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: Optional[pytest.Item]) -> Any:
        marks = {mark.name for mark in item.iter_markers()}
        is_clean = "cuda_clean" in marks
        is_traced = bool(marks & {"cuda_contexts", "no_stray_context"})
        return self._runs(item, nextitem, is_clean, is_traced) if is_clean or is_traced else None

    def _runs(self, item: pytest.Item, nextitem: Optional[pytest.Item], is_clean: bool, is_traced: bool) -> Any:
        """Runs a marked test in a process of its own, if it needs one; ``None`` lets pytest run it here."""
        task = child.task()
        if task is not None:
            self._clean_item = item.nodeid if task.get("clean") else None
            if self._clean_item:
                self._guard.prepare()
                self._guard.initialised()
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
        item.session._setupstate.teardown_exact(nextitem)  # type: ignore[attr-defined]
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
        with tempfile.TemporaryDirectory(prefix="cuda-pitfalls-") as folder:
            options = [*wanted.options(), *self._guard.gathering(folder)]
            reports, traced = child.rerun(self._guard.config, item, is_clean, self._guard.program(), options)
            self._guard.gather(folder)
        said = wanted.verdict(traced)
        for report in reports:
            if said and report.when == "call" and report.passed:
                report.outcome, report.longrepr = "failed", said
        return reports

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: "pytest.CallInfo[None]") -> Iterator[None]:
        before = self._guard.was_initialised
        outcome = yield
        if self._clean_item != item.nodeid or call.when == "teardown":
            return
        report: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
        if report.passed and self._guard.initialised():
            self._clean_item = None
            during = {"setup": "by a fixture of this test", "call": "by this test"}[call.when]
            head = "CUDA was initialised " + ("before this test, by what it imports" if before else during)
            told = self._guard.explain(head, [[item.nodeid]], ["-q"])
            if told is not None:
                report.outcome, report.longrepr = "failed", told
