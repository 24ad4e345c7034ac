"""The worker of a case of Python lines: makes the steps that the parent sends, one at a time.

It speaks what the other worker speaks (src/core/event.rs): JSON lines on an inherited socket. For Python 3.8
and later, with the standard library alone. Every start of an interpreter has `sys`, `os` and the built-in
`time`, `_ast` and `_thread`; beside these it imports `json`, `re` and `ctypes`, which know nothing of CUDA, and
`threading` and `queue` if a step starts a thread. So what a line imports is what the line imports.

libcuda is never loaded from here: its counts and the state of the driver are read once a line has loaded it.
"""
import _ast
import ctypes
import json
import os
import re
import sys
import time

ONLY_AST = 0x400
MOST_TEXT = 1024
MOST_MESSAGE = 300
# Where the parent's end is kept: out of the way of programs that close the descriptors that they find.
HIGH_FD = 900
PR_SET_PDEATHSIG = 1
SIGKILL = 9

# The names of the statuses of libcuda, by number: the program writes them here (src/core/python.rs).
STATUSES = {}
NOT_INITIALIZED = 3


def text_of(text, most):
    """Text that JSON can carry, of at most so many characters."""
    return text[:most].encode("utf-8", "replace").decode("utf-8")


def status_of(code):
    return {"code": code, "name": STATUSES.get(code)}


class Channel:
    """The socket to the parent. A descriptor that is no longer that socket is never written to."""

    def __init__(self, fd):
        self.fd = fd
        self.pending = b""
        self.identity = self._identity()

    def _identity(self):
        about = os.fstat(self.fd)
        return about.st_dev, about.st_ino

    def _check(self):
        try:
            same = self._identity() == self.identity
        except OSError:
            same = False
        if not same:
            # A line closed it: nobody can be told.
            os._exit(70)

    def send(self, document):
        rest = (json.dumps(document) + "\n").encode("ascii")
        self._check()
        try:
            while rest:
                rest = rest[os.write(self.fd, rest):]
        except OSError:
            os._exit(70)

    def receive(self):
        self._check()
        while b"\n" not in self.pending:
            try:
                read = os.read(self.fd, 65536)
            except OSError:
                read = b""
            if not read:
                # The parent is gone.
                os._exit(70)
            self.pending += read
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line.decode("utf-8"))


class Driver:
    """The libcuda that lines have loaded: its counts, and the state of the driver by the real library."""

    def __init__(self, forwarding, real):
        self.forwarding, self.real = forwarding, real
        self.library = self.own = None
        self.names = []

    def _loaded(self, path):
        if not path:
            return None
        try:
            return ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        except OSError:
            return None

    def counts(self):
        """How often each function was called; none where there is nothing that counts."""
        if not self.forwarding:
            return None
        if self.library is None:
            library = self._loaded(self.forwarding)
            if library is None:
                # One that was opened by its path is not counted, which is not the same as no calls.
                return {} if self._loaded(self.real) is None else None
            library.cuda_pitfalls_counts.restype = ctypes.c_size_t
            library.cuda_pitfalls_count_name.restype = ctypes.c_char_p
            library.cuda_pitfalls_count_name.argtypes = [ctypes.c_size_t]
            count = library.cuda_pitfalls_counts(None, ctypes.c_size_t(0))
            self.names = [library.cuda_pitfalls_count_name(index).decode("ascii") for index in range(count)]
            self.library = library
        room = (ctypes.c_uint64 * len(self.names))()
        self.library.cuda_pitfalls_counts(room, ctypes.c_size_t(len(self.names)))
        return {name: count for name, count in zip(self.names, room) if count}

    def _call(self, name, *arguments):
        function = getattr(self.own, name)
        function.restype = ctypes.c_uint
        return function(*arguments)

    def probe(self):
        """What this process and this thread see. Before the driver is initialised nothing is made by asking."""
        if self.own is None:
            self.own = self._loaded(self.real)
        if self.own is None:
            # What is not even loaded is not initialised.
            return {"status": status_of(NOT_INITIALIZED)}
        count = ctypes.c_int()
        code = self._call("cuDeviceGetCount", ctypes.byref(count))
        probe = {"status": status_of(code)}
        if code != 0 or not 0 <= count.value <= 64:
            return probe
        probe["visible"] = self._all(self._uuid, count.value)
        probe["active"] = self._all(self._active, count.value)
        context = ctypes.c_void_p()
        code = self._call("cuCtxGetCurrent", ctypes.byref(context))
        if code == 0 and context.value:
            device = ctypes.c_int()
            code = self._call("cuCtxGetDevice", ctypes.byref(device))
            if code == 0:
                probe["current"] = device.value
        if code != 0:
            probe["current_status"] = status_of(code)
        return probe

    def _all(self, read, count):
        found = [read(device) for device in range(count)]
        return None if None in found else found

    def _uuid(self, device):
        room = (ctypes.c_ubyte * 16)()
        if self._call("cuDeviceGetUuid_v2", room, ctypes.c_int(device)) != 0:
            return None
        digits = bytes(room).hex()
        return "GPU-" + "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])

    def _active(self, device):
        flags, active = ctypes.c_uint(), ctypes.c_int()
        asked = ctypes.c_int(device), ctypes.byref(flags), ctypes.byref(active)
        return bool(active.value) if self._call("cuDevicePrimaryCtxGetState", *asked) == 0 else None


class Lines:
    """The program that the lines make up: one set of globals, and a file with its definitions.

    A process that `multiprocessing` starts afresh imports the main module from its file. Real programs guard
    what they do by `if __name__ == "__main__"`: the file has the imports and definitions of the lines so far,
    and nothing else.
    """

    def __init__(self, path):
        self.module = type(sys)("__main__")
        self.module.__dict__.update({"__builtins__": __builtins__, "__file__": path})
        self.path = path
        self.sources = {}
        sys.modules["__main__"] = self.module
        sys.argv = [path]

    def run(self, source, name, wants_value):
        """Runs a line. What it raises is the caller's; its value where one is wanted."""
        tree = compile(source, name, "exec", ONLY_AST, True)
        last = None
        if wants_value:
            if not tree.body or not isinstance(tree.body[-1], _ast.Expr):
                raise Misuse("`as_value`, and the last statement is no expression")
            last = _ast.Expression(tree.body[-1].value)
        self._keep_definitions(source, tree)
        self._keep_source(name, source)
        if last is not None:
            tree.body.pop()
        exec(compile(tree, name, "exec", 0, True), self.module.__dict__)
        return eval(compile(last, name, "eval", 0, True), self.module.__dict__) if last is not None else None

    def _keep_source(self, name, source):
        """Kernels are compiled from their source, which `inspect` takes from `linecache`: what imports that has it."""
        self.sources[name] = len(source), None, source.splitlines(True), name
        cache = sys.modules.get("linecache")
        if cache is not None:
            cache.cache.update(self.sources)

    def _keep_definitions(self, source, tree):
        kinds = _ast.Import, _ast.ImportFrom, _ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef
        rows = source.encode("utf-8").splitlines(True)
        kept = b""
        for node in tree.body:
            if not isinstance(node, kinds):
                continue
            above = [one.lineno for one in getattr(node, "decorator_list", [])]
            first, last = min(above + [node.lineno]) - 1, node.end_lineno - 1
            if first < node.lineno - 1:
                piece = b"".join(rows[first:last]) + rows[last][:node.end_col_offset]
            elif first == last:
                piece = rows[first][node.col_offset:node.end_col_offset]
            else:
                piece = rows[first][node.col_offset:] + b"".join(rows[first + 1:last]) + rows[last][:node.end_col_offset]
            kept += piece + b"\n"
        if kept and self.path:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, kept)
            finally:
                os.close(descriptor)


class Misuse(Exception):
    """A step of the file that cannot be made as it is written."""


def value_of(value):
    """A value as the wire has it."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value
    if type(value) is float and value == value and value not in (float("inf"), float("-inf")):
        return value
    # Where an object lies differs from process to process.
    return text_of(value if type(value) is str else re.sub(r" at 0x[0-9a-f]{6,}", "", repr(value)), MOST_TEXT)


def message_of(error):
    """The first line of an exception's text."""
    try:
        rows = str(error).splitlines()
    except Exception as broken:
        rows = ["its text raises %s" % type(broken).__name__]
    return text_of(rows[0] if rows else "", MOST_MESSAGE)


class Thread:
    """A thread that makes the steps that it is handed."""

    def __init__(self, worker, name):
        import queue
        import threading

        self.jobs, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, args=(worker,), name=name, daemon=True)
        self.thread.start()

    def _run(self, worker):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            worker.make(*job)
            self.done.put(None)

    def make(self, number, step):
        self.jobs.put((number, step))
        self.done.get()

    def join(self):
        self.jobs.put(None)
        self.thread.join()


class Worker:
    def __init__(self, channel, driver, lines, set_aside, probes):
        self.channel, self.driver, self.lines = channel, driver, lines
        self.set_aside, self.probes = set_aside, probes
        self.pid = os.getpid()
        self.process = None
        self.threads, self.children = {}, {}
        self.forking = None
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        """A child that a line made must not be heard, and must not hide this process's end: it holds no channel."""
        ours = self.set_aside.pop(self.forking, (None, None))[0]
        close(self.channel.fd)
        if ours is None:
            self.close_ends(lambda forked_by: True)
            return
        # What this child is to fork has its ends here.
        self.close_ends(lambda forked_by: forked_by != self.forking)
        self.channel = Channel(ours)
        self.process, self.pid = self.forking, os.getpid()
        self.children = {}

    def close_ends(self, is_others):
        """Closes the ends of processes that others fork: held open here, they would hide a death."""
        for name, (fd, forked_by) in list(self.set_aside.items()):
            if is_others(forked_by):
                del self.set_aside[name]
                close(fd)

    def serve(self):
        """Makes steps until the parent says that there are no more."""
        while True:
            command = self.channel.receive()
            if command["command"] == "run":
                self.dispatch(command["step"], command["call"])
            elif command["command"] == "finish":
                return
            else:
                self.broken("prepared twice")

    def broken(self, message):
        self.channel.send({"event": "broken", "message": text_of(message, MOST_TEXT)})

    def dispatch(self, number, step):
        on = step.get("on")
        if on is None or on == self.process:
            self.make(number, step)
        elif on in self.threads:
            self.threads[on].make(number, step)
        else:
            self.broken("step %d is for %s, which does not run in this process" % (number, on))

    def make(self, number, step):
        args = step.get("args", {})
        self.channel.send({"event": "begin", "step": number, "t_ns": time.monotonic_ns()})
        before = self.driver.counts()
        try:
            if step["call"] == "py":
                end = self.line(number, step, args)
            else:
                end = self.action(step, args)
        except Misuse as misuse:
            self.broken("step %d (line %d of the file): %s" % (number, step.get("line", 0), misuse))
            return
        after = self.driver.counts()
        value = end.pop("value", None)
        started = descendants(os.getpid())
        if started:
            end["processes"] = started
        end.update({"event": "end", "step": number, "t_ns": time.monotonic_ns()})
        if before is not None and after is not None:
            made = {name: count - before.get(name, 0) for name, count in after.items()}
            end["calls"] = {name: count for name, count in made.items() if count > 0}
        if value is not None:
            # Showing a value may make calls of its own, which are not the line's.
            end["values"] = {args["as_value"]: self.shown(value[0])}
            end["varying"] = [args["as_value"]] if "varies" in args else []
        self.channel.send(end)
        if self.probes:
            started = time.monotonic_ns()
            probe = self.driver.probe()
            elapsed = time.monotonic_ns() - started
            self.channel.send({"event": "probe", "step": number, "elapsed_ns": elapsed, "probe": probe})

    def shown(self, value):
        try:
            return value_of(value)
        except BaseException as broken:
            return "its repr raises %s" % type(broken).__name__

    def line(self, number, step, args):
        name = "<step %d: %s>" % (number, step.get("label", "line"))
        value, raised = None, None
        started = time.monotonic_ns()
        try:
            value = self.lines.run(args["line"], name, "as_value" in args)
        except Misuse:
            raise
        except BaseException as error:
            raised = error
        elapsed = time.monotonic_ns() - started
        if os.getpid() != self.pid:
            # The line forked, and this is the child: the steps are the parent's.
            self.flush()
            os._exit(0 if raised is None else 1)
        end = {"elapsed_ns": elapsed, "status": {"code": 0, "name": "OK"}}
        if raised is not None:
            end["status"] = {"code": 1, "name": text_of(type(raised).__name__, MOST_MESSAGE)}
            end["values"] = {"message": message_of(raised)}
            end["varying"] = ["message"]
            self.print(raised)
        elif "as_value" in args:
            end["value"] = [value]
        self.flush()
        return end

    def print(self, raised):
        """Prints an exception as the interpreter would, without the frames of this file."""
        frames = raised.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        try:
            sys.excepthook(type(raised), raised.with_traceback(frames), frames)
        except BaseException:
            pass

    def flush(self):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def action(self, step, args):
        action = ACTIONS.get(step["call"])
        if action is None:
            raise Misuse("`%s` is no step of a case of Python lines" % step["call"])
        started = time.monotonic_ns()
        status, values = None, {}
        try:
            values = action(self, step, args) or {}
        except OSError as error:
            status = {"code": error.errno or 0, "name": None}
        return {"elapsed_ns": time.monotonic_ns() - started, "status": status, "values": values}

    def mark(self, step, args):
        pass

    def setenv(self, step, args):
        if args.get("overwrite", 1) or args["name"] not in os.environ:
            os.environ[args["name"]] = args["value"]

    def unsetenv(self, step, args):
        os.environ.pop(args["name"], None)

    def getenv(self, step, args):
        value = os.environ.get(args["name"])
        return None if value is None else {"value": text_of(value, MOST_TEXT)}

    def getpid(self, step, args):
        return {"pid": os.getpid()}

    def nanosleep(self, step, args):
        time.sleep(args["milliseconds"] / 1000)

    def pthread_create(self, step, args):
        self.threads[step["as"]] = Thread(self, step["as"])

    def pthread_join(self, step, args):
        self.threads.pop(args["actor"]).join()

    def fork(self, step, args):
        name = step["as"]
        self.forking = name
        pid = os.fork()
        if pid == 0:
            # Nothing else ends it if the parent is killed while it hangs.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
            self.forking = None
            self.threads = {}
            self.serve()
            self.channel.send({"event": "bye", "libraries": libraries()})
            self.flush()
            os._exit(0)
        self.forking = None
        close(self.set_aside.pop(name)[0])
        self.close_ends(lambda forked_by: forked_by == name)
        self.children[name] = pid
        return {"pid": pid}

    def waitpid(self, step, args):
        _, status = os.waitpid(self.children[args["actor"]], 0)
        if os.WIFSIGNALED(status):
            return {"code": -1, "signal": os.WTERMSIG(status)}
        return {"code": os.WEXITSTATUS(status), "signal": 0}

    def seccomp(self, step, args):
        """The filter is there since before the interpreter started; the parent has put the refusal in force."""


ACTIONS = {
    "mark": Worker.mark,
    "setenv": Worker.setenv,
    "unsetenv": Worker.unsetenv,
    "getenv": Worker.getenv,
    "getpid": Worker.getpid,
    "nanosleep": Worker.nanosleep,
    "pthread_create": Worker.pthread_create,
    "pthread_join": Worker.pthread_join,
    "fork": Worker.fork,
    "waitpid": Worker.waitpid,
    "seccomp": Worker.seccomp,
}


def descendants(pid):
    """Processes that a process has started and that still run, and theirs."""
    found = []
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return found
    for task in tasks:
        try:
            with open("/proc/%d/task/%s/children" % (pid, task)) as children:
                for child in map(int, children.read().split()):
                    found += [child] + descendants(child)
        except (OSError, ValueError):
            pass
    return sorted(set(found))


def libraries():
    """The libraries of CUDA that this process has mapped, and whether each is the simulated machine's."""
    kinds = (("libcudart", "libcudart"), ("libcuda.", "libcuda"), ("libnvidia-ml", "libnvidia-ml"))
    found = {}
    try:
        with open("/proc/self/maps", "rb") as maps:
            paths = {row.split(None, 5)[5].rstrip(b"\n") for row in maps if row.count(b" /")}
    except OSError:
        return []
    for path in sorted(paths):
        path = os.fsdecode(path)
        name = os.path.basename(path)
        kind = next((kind for start, kind in kinds if name.startswith(start)), None)
        if name.startswith("libcuda_pitfalls_sim"):
            kind = "libcuda"
        try:
            # Also what is there no more, or is the forwarding library, which is ours.
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY) if kind else None
        except OSError:
            library = None
        if library is None or is_forwarding(library):
            continue
        simulated = has(library, "cuda_pitfalls_simulated")
        kind = "simulated machine" if simulated else kind
        found[path] = {"library": kind, "path": text_of(path, 4096), "simulated": simulated}
    return list(found.values())


def is_forwarding(library):
    """Whether a library is the one that counts. What it depends on is found through it."""
    return has(library, "cuda_pitfalls_counts")


def has(library, symbol):
    try:
        getattr(library, symbol)
        return True
    except AttributeError:
        return False


def close(fd):
    """Closes a descriptor that a line may have closed already."""
    try:
        os.close(fd)
    except OSError:
        pass


def move(fd, to):
    """Moves a descriptor out of the way, and keeps it from programs that lines start."""
    try:
        os.dup2(fd, to, inheritable=False)
        os.close(fd)
        return to
    except OSError:
        os.set_inheritable(fd, False)
        return fd


def injected():
    try:
        with open("/etc/ld.so.preload") as preload:
            return ["/etc/ld.so.preload"] if preload.read().strip() else []
    except (OSError, ValueError):
        return []


def version_of(name):
    """The version of a distribution, or of the distribution that has a module of this name; an empty text for
    a module of none; none for what is not there."""
    from importlib import metadata, util

    try:
        return metadata.version(name) or ""
    except metadata.PackageNotFoundError:
        pass
    try:
        if "." in name or "-" in name or util.find_spec(name) is None:
            return None
    except (ImportError, ValueError):
        return None
    for distribution in metadata.distributions():
        try:
            tops = (distribution.read_text("top_level.txt") or "").split()
            files = () if tops else distribution.files or ()
            if name in tops or any(file.parts[0] in (name, name + ".py") for file in files):
                return distribution.version or ""
        except Exception:
            continue
    return ""


def ask(fd, names):
    """Tells what this interpreter is and has, without importing any of it."""
    answer = {
        "implementation": sys.implementation.name,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "executable": sys.executable or "",
        "packages": {name: version_of(name) for name in names},
    }
    Channel(fd).send(answer)


def main(arguments):
    # The folder of this file is no place to import from.
    if sys.path and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    if arguments[0] == "ask":
        return ask(int(arguments[1]), arguments[2:])
    fd, protocol, forwarding, real, home = arguments[1:6]
    channel = Channel(move(int(fd), HIGH_FD))
    prepare = channel.receive()
    aside = sorted(prepare["channels"].items())
    set_aside = {name: (move(end["fd"], HIGH_FD + 1 + at), end["forked_by"]) for at, (name, end) in enumerate(aside)}
    os.chdir(home)
    lines = Lines(os.path.join(home, "lines-%d.py" % os.getpid()))
    worker = Worker(channel, Driver(forwarding, real), lines, set_aside, prepare["probes"])
    ready = {"event": "ready", "protocol": int(protocol), "pid": os.getpid(), "injected": injected()}
    channel.send(ready)
    worker.serve()
    channel.send({"event": "bye", "libraries": libraries()})


if __name__ == "__main__":
    # Kept alive under a name of its own once the lines are `__main__`.
    sys.modules["cuda_pitfalls_worker"] = sys.modules["__main__"]
    main(sys.argv[1:])
