"""The program of one row of `survey python`: before.py, then ask.py, as the top level of a script would run.

What happens from the moment at which it says `ask` is the asked code's. It imports nothing that a row could be about.
"""
# A row may give any other name another meaning.
import json as _json
import os as _os
import time as _time

_FOLDER = _os.path.dirname(_os.path.abspath(__file__))


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
    return {"kind": type(error).__name__, "message": lines[0], "more": "\n".join(lines[1:])}


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


def _stand_before_nvml():
    """Loads the forwarding NVML of this row, if it has one: who opens NVML by its name then gets that one."""
    path = _os.path.join(_FOLDER, "libnvidia-ml.so.1")
    if _os.path.exists(path):
        import ctypes

        ctypes.CDLL(path)


def _settle():
    """Lets memory be read from outside, which takes place every few hundredths of a second."""
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


def _before():
    code, last = _compiled("before.py")
    exec(code, globals())
    if last is not None:
        eval(last, globals())


def _ask():
    code, last = _compiled("ask.py")
    value, raised = None, None
    warned = _warned()
    _settle()
    _say(said="ask", t_ns=_time.monotonic_ns(), pid=_os.getpid())
    try:
        exec(code, globals())
        if last is not None:
            value = eval(last, globals())
    except BaseException as error:
        raised = _raised(error)
    ended = _time.monotonic_ns()
    _settle()
    _say(said="end", t_ns=ended, value=_plain(value) if last is not None and raised is None else None, raised=raised,
         warned=warned[:8])


# A child of multiprocessing begins here too, and runs what stands above a script's main part.
if __name__ == "__main__":
    _stand_before_nvml()
    try:
        _before()
    except BaseException as error:
        _say(said="setup", raised=_raised(error))
    else:
        _ask()
else:
    _before()
