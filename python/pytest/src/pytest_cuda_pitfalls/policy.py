"""What the markers allow, as options of ``trace``, and what its summary says of it."""

from typing import List, NamedTuple, Optional, Sequence

import pytest

from .child import failed
from .program import Gpu, Traced, Visible


class MarkError(Exception):
    """A marker is not valid."""


class Marked(NamedTuple):
    """What the markers of a test say."""

    #: The GPUs of ``cuda_contexts``; ``None`` without it.
    gpus: Optional[Sequence[object]]
    #: Its ``max_mib``.
    max_mib: Optional[int]
    #: Whether there is ``no_stray_context``.
    no_stray: bool

    @classmethod
    def of(cls, item: pytest.Item) -> "Marked":
        """Reads the markers.

        :raises MarkError: one is not valid.
        """
        mark = item.get_closest_marker("cuda_contexts")
        no_stray = item.get_closest_marker("no_stray_context") is not None
        if mark is None:
            return cls(None, None, no_stray)
        if set(mark.kwargs) - {"gpus", "max_mib"} or len(mark.args) > 1 or (mark.args and "gpus" in mark.kwargs):
            raise MarkError("cuda_contexts(gpus, max_mib=None) takes nothing else: %r, %r" % (mark.args, mark.kwargs))
        gpus = mark.args[0] if mark.args else mark.kwargs.get("gpus")
        if not isinstance(gpus, (list, tuple)):
            raise MarkError("cuda_contexts: gpus is a list of numbers or UUIDs, not %r" % (gpus,))
        max_mib = mark.kwargs.get("max_mib")
        if max_mib is not None and (not isinstance(max_mib, int) or isinstance(max_mib, bool) or max_mib < 1):
            raise MarkError("cuda_contexts: max_mib is a number of MiB, not %r" % (max_mib,))
        return cls(gpus, max_mib, no_stray)

    def on(self, visible: Visible) -> "Policy":
        """What that is on a machine with these GPUs.

        :raises MarkError: one of the GPUs is not visible.
        """
        gpus = None if self.gpus is None else [_gpu(one, visible.gpus) for one in self.gpus]
        return Policy(gpus, visible.total, self.max_mib, self.no_stray)


class Policy(NamedTuple):
    """What a test may do."""

    #: The GPUs on which it may make contexts; ``None`` allows all.
    gpus: Optional[List[Gpu]]
    #: How many GPUs NVML lists.
    total: int
    #: The most memory that it may take on each of these GPUs, in MiB.
    max_mib: Optional[int]
    #: Whether contexts without work are forbidden.
    no_stray: bool

    def options(self) -> List[str]:
        """The options of ``trace`` that say the same."""
        options: List[str] = []
        if self.gpus is not None:
            allowed = {gpu.index for gpu in self.gpus}
            for index in range(self.total):
                if index not in allowed:
                    options += ["--forbid", "context:gpu%d" % index]
                elif self.max_mib is not None:
                    options += ["--max-bytes", "gpu%d=%dMiB" % (index, self.max_mib)]
        if self.no_stray:
            options += ["--forbid", "stray"]
        return options

    def verdict(self, traced: Optional[Traced]) -> Optional[str]:
        """Why the test fails; ``None`` if it did what it may."""
        if traced is None or traced.summary is None:
            return "the trace of this test has no summary\n%s" % (traced.stderr[-2000:] if traced else "")
        lines = []
        for violation in traced.summary["violations"]:
            at = violation.get("at")
            lines.append("%s: %s" % ("%s:%s" % (at["file"], at["line"]) if at else violation["forbidden"], violation["says"]))
            if at and at.get("source"):
                lines.append("    " + at["source"])
        lines += ["cannot be decided: %s" % why for why in traced.summary["undecided"]]
        return "\n".join(lines) or None


def _gpu(named: object, visible: List[Gpu]) -> Gpu:
    if isinstance(named, int) and not isinstance(named, bool) and 0 <= named < len(visible):
        return visible[named]
    found = [gpu for gpu in visible if isinstance(named, str) and gpu.uuid.startswith(named)]
    if len(found) != 1:
        raise MarkError("cuda_contexts: %r is none of the %d visible GPUs" % (named, len(visible)))
    return found[0]


def skipped(item: pytest.Item, why: str) -> pytest.TestReport:
    """A report of a test that was not run."""
    report = failed(item, "setup", "")
    path, line, _ = item.location
    report.outcome, report.longrepr = "skipped", (path, line or 0, "Skipped: " + why)
    return report
