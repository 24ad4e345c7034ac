"""Who calls the functions by which a framework initialised CUDA, from then on.

A framework calls ``cuInit`` once: where it was somebody else's line, that of a later caller shows in no call of the driver.
"""

import sys
import sysconfig
import threading
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

_STDLIB = sysconfig.get_paths()["stdlib"]
#: Distinct callers that are told.
_MOST = 500


def begin(functions: Sequence[Sequence[str]], say: Callable[[Dict[str, Any]], None]) -> None:
    """Tells each way to a call of these functions, each by its file and name, as a trace tells the way to ``cuInit``."""
    wanted = {(file, name) for file, name in functions}
    told: Set[Tuple[Tuple[str, int], ...]] = set()

    def called(frame: FrameType) -> None:
        way: List[FrameType] = []
        at: Optional[FrameType] = frame
        while at is not None:
            way.append(at)
            at = at.f_back
        key = tuple((one.f_code.co_filename, one.f_lineno) for one in way)
        if key not in told and len(told) < _MOST:
            told.add(key)
            frames = [_told(one) for one in way]
            say({"call": "cuInit, where it had not been called and there is a GPU", "stack": {"frames": frames}})

    def is_wanted(code: CodeType) -> bool:
        return (code.co_filename, code.co_name) in wanted

    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring

        def started(code: CodeType, _: int) -> Any:
            if not is_wanted(code):
                return monitoring.DISABLE
            called(sys._getframe(1))
            return None

        tool = next(number for number in range(5, -1, -1) if monitoring.get_tool(number) is None)
        monitoring.use_tool_id(tool, "cuda-pitfalls")
        monitoring.register_callback(tool, monitoring.events.PY_START, started)
        monitoring.set_events(tool, monitoring.events.PY_START)
        return

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_wanted(frame.f_code):
            called(frame)

    threading.setprofile(profile)
    sys.setprofile(profile)


def _told(frame: FrameType) -> Dict[str, Any]:
    file = frame.f_code.co_filename
    _, is_package, below = file.rpartition("/site-packages/")
    is_system = file.startswith("<") or (file.startswith(_STDLIB) and not is_package)
    return {
        "language": "python",
        "function": frame.f_code.co_name,
        "file": file,
        "line": frame.f_lineno,
        "owner": "system" if is_system else "package" if is_package else "program",
        "package": below.partition("/")[0] if is_package and "/" in below else None,
    }
