"""The program of one row of `survey python`: before.py, then ask.py, as the top level of a script would run.

What happens from the moment at which it says `ask` is the asked code's. It imports nothing that a row could be about.
"""
# A row may give any other name another meaning.
import json as _json
import os as _os
import time as _time

_FOLDER = _os.path.dirname(_os.path.abspath(__file__))
# How long to wait for helpers at most, and how long they must do nothing.
_HELPERS_S = 20
_IDLE_S = 0.7


def _say(**words):
    descriptor = _os.open(_os.path.join(_FOLDER, "said"), _os.O_WRONLY | _os.O_CREAT | _os.O_APPEND, 0o600)
    _os.write(descriptor, _json.dumps(words).encode() + b"\n")
    _os.close(descriptor)


def _raised(error):
    try:
        message = str(error)
    except Exception:
        message = ""
    lines = message.splitlines() or [""]
    return {"kind": type(error).__name__, "message": lines[0], "more": "\n".join(lines[1:]),
            "absent": _is_absent(error, lines[0])}


def _is_absent(error, message):
    """Whether this version does not have what the row's own code names: nothing of the package's raised the error."""
    if isinstance(error, TypeError):
        if "argument" not in message:
            return False
    elif not isinstance(error, (AttributeError, ImportError)) or message.startswith("'NoneType'"):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code if last is not None else None
    return code is not None and (code.co_filename.startswith(_FOLDER) or code.co_name == "__getattr__")


def _compiled(name):
    """The code of a file and, if it ends in an expression, that expression's."""
    import ast

    path = _os.path.join(_FOLDER, name)
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), path, "eval")
    return compile(tree, path, "exec"), last


def _plain(value):
    """A value as Python writes it, or the name of its type: others may do work when they are written."""
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) in (tuple, list) and len(value) <= 16 and all(type(part) in (bool, int, float, str) for part in value):
        return repr(value)
    return "%s.%s" % (type(value).__module__, type(value).__qualname__)


def _settle():
    """Lets memory be read from outside, which takes place every few hundredths of a second."""
    _time.sleep(0.1)


def _descendants():
    """The PIDs of all processes that this one has started, and they."""
    found, left = [], [_os.getpid()]
    while left:
        pid = left.pop()
        try:
            for task in _os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, task)) as file:
                    children = [int(child) for child in file.read().split()]
                found += children
                left += children
        except OSError:
            pass
    return found


def _ticks(pid):
    """The processor time of a process, in ticks."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return 0


def _wait_for_helpers():
    """Helpers that the line has started may call CUDA after its end, which is the line's doing: waits until they do
    nothing."""
    until, idle, last = _time.monotonic() + _HELPERS_S, 0, None
    while idle < _IDLE_S and _time.monotonic() < until:
        helpers = _descendants()
        if not helpers:
            return
        ticks = sum(_ticks(pid) for pid in helpers)
        idle, last = (idle + 0.1, last) if ticks == last else (0, ticks)
        _time.sleep(0.1)


def _warned():
    """The warnings from now on, as text. They are shown too, as without us."""
    import warnings

    heard, show = [], warnings.showwarning

    def hear(message, category, *rest, **more):
        lines = str(message).splitlines() or [""]
        heard.append("%s: %s" % (category.__name__, lines[0]))
        return show(message, category, *rest, **more)

    warnings.showwarning = hear
    return heard


def _watch():
    """What the code does in addition to its own work, from now on: returns a function that tells it. No row has a mask, so that
    only a question for its name looks it up."""
    encode, looked, before, threads = _os.environ.encodekey, [], dict(_os.environ), len(_os.listdir("/proc/self/task"))

    def note(key):
        if key == "CUDA_VISIBLE_DEVICES":
            looked[:] = [key]
        return encode(key)

    def tell():
        _os.environ.encodekey = encode
        with open("/proc/self/maps") as file:
            nvml = "libnvidia-ml.so" in file.read()
        changed = sorted(name for name, value in _os.environ.items() if before.get(name) != value)
        return {"looks": bool(looked), "nvml": nvml, "sets": changed,
                "threads": max(0, len(_os.listdir("/proc/self/task")) - threads)}

    _os.environ.encodekey = note
    return tell


def _before():
    code, last = _compiled("before.py")
    exec(code, globals())
    if last is not None:
        eval(last, globals())


def _ask():
    code, last = _compiled("ask.py")
    value, raised = None, None
    warned = _warned()
    tell = _watch()
    _settle()
    _say(said="ask", t_ns=_time.monotonic_ns(), pid=_os.getpid())
    try:
        exec(code, globals())
        if last is not None:
            value = eval(last, globals())
    except BaseException as error:
        raised = _raised(error)
    ended, effects = _time.monotonic_ns(), tell()
    _settle()
    _say(said="end", t_ns=ended, value=_plain(value) if last is not None and raised is None else None, raised=raised,
         warned=warned[:8], effects=effects)
    _wait_for_helpers()


# A child of multiprocessing begins here too, and runs what stands above a script's main part.
if __name__ == "__main__":
    try:
        _before()
    except BaseException as error:
        _say(said="setup", raised=_raised(error))
    else:
        _ask()
else:
    _before()
