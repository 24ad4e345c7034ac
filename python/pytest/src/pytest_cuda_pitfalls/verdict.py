"""What is said of a run that initialized CUDA, or may have, by what a trace of the same run shows."""

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .program import Line
from .project import Judged

_UNDECIDED = "without a GPU a library gave up before it called cuInit; on a machine with GPUs it may call it"
_COUNTS = "by code that counts GPUs; beside NVML, as on a machine with GPUs, it does not call cuInit"
_FOREIGN = (
    "%s, at %s, which is no line of this project; if it is known, say `cuda_clean_allow = %s`; "
    "lines that use CUDA after it may not be noticed"
)


class Attempt(NamedTuple):
    """What a run of pytest under a trace showed."""

    #: The ways to ``cuInit``, and to each context that was made.
    ways: List[Judged]
    #: The functions of machine code that came to it, where no line of Python did.
    native: List[str]
    #: The ways to calls after which a library gave up.
    gave_up: List[Judged]
    #: Why the trace cannot say that there was nothing else.
    undecided: List[str]
    #: Why a line may be missing; ``None`` if the run was seen to its end.
    unread: Optional[str]
    #: What the pitfalls say that the trace found, and what was forbidden.
    findings: Sequence[Dict[str, Any]]

    def offender(self, is_excused: Callable[[Judged], bool]) -> Optional[Judged]:
        """The first way that nobody allows."""
        return next((way for way in self.ways if not way.is_allowed and not is_excused(way)), None)


class Verdict(NamedTuple):
    """What is shown of a run; nothing if it passes."""

    #: What a report shows of a failure.
    failure: Any = None
    warnings: Sequence[str] = ()


class FailureText:
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


def decide(
    head: str, attempt: Attempt, is_excused: Callable[[Judged], bool], is_initialised: bool, is_stand_in: bool
) -> Verdict:
    """The verdict on a run that showed this: a line that nobody allows fails, and a line that ``is_excused`` warns."""
    offender = attempt.offender(is_excused)
    if offender:
        return Verdict(FailureText(head, offender, remedies(attempt.findings, offender)))
    if attempt.native:
        return Verdict("%s\nno line of Python did it: %s" % (head, " -> ".join(attempt.native)))
    if attempt.ways:
        foreign = [way for way in attempt.ways if not way.is_allowed]
        warnings = [[_FOREIGN % (head, way.place(), way.module()), *known_imports(attempt.findings, way)] for way in foreign]
        return Verdict(warnings=[". ".join(lines) for lines in warnings])
    if not is_initialised:
        return _decide_given_up("undecided whether " + head, attempt, is_excused)
    if attempt.unread:
        return Verdict("%s\nits line is not known: %s" % (head, attempt.unread))
    if not is_stand_in:
        return Verdict("%s\nonce more, under a trace, it was not: the line is not known" % head)
    return Verdict(warnings=["%s, %s" % (head, _COUNTS)])


def _decide_given_up(head: str, attempt: Attempt, is_excused: Callable[[Judged], bool]) -> Verdict:
    """The verdict where a library gave up before ``cuInit``: nobody knows what it does on a machine with GPUs. That is no
    pass, unless the line is allowed."""
    if not attempt.undecided and not attempt.gave_up:
        return Verdict()
    why = ": ".join([_UNDECIDED, *attempt.undecided])
    if not attempt.gave_up:
        return Verdict("%s\n%s" % (head, why))
    given_up = attempt._replace(ways=attempt.gave_up)
    offender = given_up.offender(is_excused)
    if offender:
        return Verdict(FailureText(head, offender, why))
    foreign = [way for way in attempt.gave_up[:1] if not way.is_allowed]
    return Verdict(warnings=["%s, at %s: %s" % (head, way.place(), why) for way in foreign])


def remedies(findings: Sequence[Dict[str, Any]], judged: Judged) -> str:
    """What to do instead: what holds for every line, and what the pitfalls say that the trace found at this one."""
    found = ["Ask for CUDA in the body of a test or in a fixture, or in a function that a test calls."]
    lines = [line for line in (judged.own, judged.way.at) if line is not None]
    found += [finding["workaround"] for finding in _at(findings, lines) if finding.get("severity") == "pitfall"]
    told = ["Instead: " + workaround for workaround in dict.fromkeys(found)]
    return "\n".join(told + known_imports(findings, judged))


def known_imports(findings: Sequence[Dict[str, Any]], judged: Judged) -> List[str]:
    """What was measured of the import that initialized CUDA in this way, if anything was."""
    known = [finding["import"] for finding in _at(findings, judged.way.chain) if "import" in finding]
    return list(dict.fromkeys(known))


def _at(findings: Sequence[Dict[str, Any]], lines: Sequence[Line]) -> List[Dict[str, Any]]:
    """The findings at one of these lines."""
    places = [(line.path, line.line) for line in lines]
    located = [finding for finding in findings if finding["at"]]
    return [it for it in located if (os.path.abspath(it["at"]["file"]), it["at"]["line"]) in places]
