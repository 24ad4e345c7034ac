import ctypes
import errno
import json
import mmap
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_longlong, c_size_t, c_ubyte, c_uint, c_uint64, c_ulonglong, c_void_p

# What runs and measures. The cases are at the end of this file.
#
# Every case runs in a fresh process: this file again. The first process never uses CUDA before the table. It lets
# a case make one step at a time, waits until memory is at rest and reads it from outside, by NVML.

RUNTIME, DRIVER, NVML, LIBC, OTHER, PYTHON = range(6)
MAIN = 0
NOT_INITIALIZED, NO_DEVICE = 3, 100
NOISE = 2 << 20  # a driver takes memory in blocks of 2 MiB
TURN, LEAVE, PROCESS, BLOCKS, SHARED = 0, 64, 128, 1024, 4096
MASKED, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = -1, 1, 36
environ = ctypes.CDLL(None, use_errno=True)


def load(*names):
    """The first of these libraries that is there."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            missing = error
    print(missing, file=sys.stderr)
    sys.exit(2)


class Structure(ctypes.Structure):
    """Bytes that are passed by value."""


class Dim3(Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


class Location(Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class Block64(Structure):
    _fields_ = [("bytes", c_ubyte * 64)]


class MemoryInfo(Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class PciInfo(Structure):
    _fields_ = [("legacy", ctypes.c_char * 16), ("numbers", c_uint * 5), ("id", ctypes.c_char * 32), ("rest", c_uint * 16)]


def uuid_text(room):
    digits = bytes(room).hex()
    return "GPU-" + "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


# In the process of a case.

# Which case this process runs and which of its processes it is: told by the process that started it.
TOLD = json.loads(os.environ.pop("REPRODUCER", "null")) if __name__ == "__main__" else None
CASE = TOLD["case"] if TOLD else None
ME = TOLD["actor"] if TOLD else None
GPUS = TOLD["gpus"] if TOLD else []
shared = mmap.mmap(TOLD["shared"], SHARED) if TOLD else None
if TOLD:
    environ.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.set_inheritable(TOLD["shared"], False)
    os.set_inheritable(TOLD["pipe"], False)


def word(place, value=None):
    if value is None:
        return int.from_bytes(shared[place:place + 4], "little", signed=True)
    shared[place:place + 4] = value.to_bytes(4, "little", signed=True)


def name_gpu(text):
    """UUIDs and PCI addresses are told by the name of the GPU: gpu0 is NVML's first."""
    for index, (uuid, pci) in enumerate(GPUS):
        if text == uuid or (":" in text and text.lstrip("0").lower() == pci.lstrip("0").lower()):
            return "gpu%d" % index
    return text


def filled(text):
    """The text with ${gpu0} and the like filled in."""
    def meaning(match):
        name, _, form = match.group(1).partition(":")
        if name == "gpus":
            return str(len(GPUS))
        if int(name[3:]) >= len(GPUS):
            os._exit(125)  # this machine has too few
        uuid, pci = GPUS[int(name[3:])]
        return {"pci": pci, "short": uuid[:12], "upper": uuid.upper(), "bare": uuid[4:], "": uuid}[form]

    return re.sub(r"\$\{(gpus|gpu\d+(?::[a-z]+)?)\}", meaning, text)


def probe(cuda):
    """Reads the state of the driver without changing it: before cuInit the count is error 3 and no more."""
    count = c_int()
    state = {"status": cuda.cuDeviceGetCount(byref(count)), "visible": [], "active": [], "current": None}
    if state["status"] != 0:
        return state
    for device in range(count.value):
        uuid, flags, active = (c_ubyte * 16)(), c_uint(), c_int()
        if cuda.cuDeviceGetUuid_v2(uuid, c_int(device)) or cuda.cuDevicePrimaryCtxGetState(
                c_int(device), byref(flags), byref(active)):
            return None
        state["visible"].append(name_gpu(uuid_text(uuid)))
        state["active"].append(active.value)
    context, device = c_void_p(), c_int()
    if cuda.cuCtxGetCurrent(byref(context)) == 0:
        if not context.value:
            state["current"] = "none"
        elif cuda.cuCtxGetDevice(byref(device)) == 0:
            state["current"] = state["visible"][device.value]
    return state


def loaded_driver():
    """libcuda, if this process has loaded it: of lines of Python only they may do that."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None


class Seen:
    """What a step shows."""

    def __init__(self, label):
        self.label, self.status, self.values, self.made = label, None, {}, True

    def returned(self, library, code):
        """Notes a status; true if it is success."""
        self.status = [library, code]
        return code == 0

    def value(self, name, value):
        if type(value).__module__ == "numpy" and hasattr(value, "item"):
            value = value.item()
        if type(value) is not int and not (type(value) is float and abs(value) < float("inf")):
            value = name_gpu(value if type(value) is str else re.sub(r" at 0x[0-9a-f]{6,}", "", repr(value)))
        self.values[name] = value

    def bound(self, name, handle):
        self.values[name] = "bound" if handle.value else "NULL"

    def text(self, name, text):
        self.value(name, (text or b"NULL").decode("utf-8", "replace"))


class step:
    """One step of the case: it waits until it may be made, and tells what it showed."""

    def __init__(self, label):
        self.seen = Seen(label)
        self.number = ORDERS[CASE]["labels"].index(label) if CASE in ORDERS else 0

    def __enter__(self):
        while word(TURN) != self.number:
            time.sleep(0.0001)
        return self.seen

    def __exit__(self, kind, error, trace):
        seen = self.seen
        if ORDERS.get(CASE, {}).get("lines"):
            seen.status = [PYTHON, "OK"]
            if kind is not None:
                seen.status = [PYTHON, kind.__name__]
                rows = str(error).splitlines()
                seen.value("message", rows[0] if rows else "")
                sys.excepthook(kind, error, trace)
        elif kind is not None:
            return False
        if seen.made:
            tell(seen, self.number)
        return True


def tell(seen, number):
    state = None
    if ORDERS.get(CASE, {}).get("probes", True):
        cuda = loaded_driver()
        # What is not even loaded is not initialised.
        state = probe(cuda) if cuda else {"status": NOT_INITIALIZED}
    told = {"step": number, "status": seen.status, "values": seen.values, "probe": state}
    os.write(TOLD["pipe"], (json.dumps(told) + "\n").encode())


class Thread:
    """A thread that makes the steps that it is handed."""

    def __init__(self):
        self.jobs, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        for job in iter(self.jobs.get, None):
            job()
            self.done.put(None)

    def step(self, label):
        """Makes the function that follows a step on this thread."""
        def make(function):
            def job():
                with step(label) as seen:
                    function(seen)

            self.jobs.put(job)
            self.done.get()

        return make

    def run(self, label, line, value=None):
        """Makes a step of a line of Python on this thread."""
        def job():
            with step(label) as seen:
                if value is None:
                    exec(compile(line, label, "exec"), globals())
                else:
                    seen.value(value, eval(compile(line, label, "eval"), globals()))

        self.jobs.put(job)
        self.done.get()

    def join(self):
        self.jobs.put(None)
        self.thread.join()


def fork(seen, actor):
    """Forks. The child makes the steps that are its own and skips the others."""
    global ME
    child = os.fork()
    if child == 0:
        ME, seen.made = actor, False
        environ.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        word(PROCESS + 4 * actor, os.getpid())
    else:
        seen.value("pid", child)
    return child


def start_process(seen, actor):
    """Starts this file again, in a fresh process with the environment that this one has now."""
    told = dict(TOLD, actor=actor)
    table, place, variables = ctypes.POINTER(c_char_p).in_dll(environ, "environ"), 0, {}
    while table[place] is not None:  # as C knows it: os.environ does not see what setenv changed
        name, _, value = table[place].partition(b"=")
        variables[name] = value
        place += 1
    variables[b"REPRODUCER"] = json.dumps(told).encode()
    for fd in (TOLD["shared"], TOLD["pipe"]):
        os.set_inheritable(fd, True)
    child = os.posix_spawn(sys.executable, [sys.executable, os.path.abspath(__file__)], variables)
    for fd in (TOLD["shared"], TOLD["pipe"]):
        os.set_inheritable(fd, False)
    word(PROCESS + 4 * actor, child)
    seen.value("pid", child)
    return child


def wait_for(seen, actor, child):
    """Lets a process leave and waits for it."""
    shared[LEAVE + actor] = 1
    _, status = os.waitpid(child, 0)
    seen.value("code", -1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
    seen.value("signal", os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)


def wait_for_end(child):
    """Waits for the end of a killed child, which stays a zombie."""
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def errno_of(seen, result):
    """The status of a call of the C library."""
    return seen.returned(LIBC, ctypes.get_errno() if result == -1 else result)


def leave():
    """The end of a case: a process stays until it may leave."""
    while not shared[LEAVE + ME]:
        time.sleep(0.0001)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.getpid() != word(PROCESS + 4 * ME) or ME not in ORDERS.get(CASE, {}).get("forked", []):
        sys.exit(0)
    os._exit(0)


def block(number):
    """Bytes for any process of the case, such as an IPC handle."""
    return (c_ubyte * 128).from_buffer(shared, BLOCKS + 128 * number)


def block64(number):
    return Block64.from_buffer_copy(shared, BLOCKS + 128 * number)


def room(size, *words):
    """A struct of so many bytes with 32-bit or 64-bit words at their places."""
    bytes_ = bytearray((size + 7) // 8 * 8)
    for place, width, value in words:
        bytes_[place:place + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return (c_ubyte * len(bytes_)).from_buffer(bytes_)


def word_at(bytes_, place, width):
    return int.from_bytes(bytes(bytes_)[place:place + width], "little", signed=True)


def text_at(bytes_, place):
    return bytes(bytes_)[place:].split(b"\0")[0]


def list_of(*values):
    """void **: the addresses of arguments."""
    kept = [value if isinstance(value, ctypes._SimpleCData) else c_uint64(value) for value in values]
    table = (c_void_p * len(kept))(*[ctypes.addressof(value) for value in kept])
    table.kept = kept
    return table


def set_environ(name, value):
    """Writes to environ itself, behind the back of setenv."""
    table = ctypes.POINTER(c_char_p).in_dll(environ, "environ")
    kept, place = [], 0
    while table[place] is not None:
        if not table[place].startswith(name.encode() + b"="):
            kept.append(table[place])
        place += 1
    kept.append(("%s=%s" % (name, value)).encode())
    fresh = (c_char_p * (len(kept) + 1))(*kept, None)
    KEPT.append(fresh)
    c_void_p.in_dll(environ, "environ").value = ctypes.addressof(fresh)


KEPT = []


# In the first process, which reads memory.

class Run:
    """What a case showed, and questions about it: true, false, or none where it cannot be told."""

    def __init__(self, name):
        self.name, self.steps, self.end = name, [], None

    def at(self, label):
        labels = ORDERS[self.name]["labels"]
        place = labels.index(label) if label in labels else len(labels)
        return self.steps[place] if place < len(self.steps) and self.steps[place]["returned"] else None

    @staticmethod
    def all(*answers):
        return False if False in answers else None if None in answers else True

    @staticmethod
    def any(*answers):
        return True if True in answers else None if None in answers else False

    def others(self, *named):
        return [gpu for gpu in range(len(GPUS)) if gpu not in named]

    def status(self, label, *statuses):
        seen = self.at(label)
        return None if not seen or not seen["status"] else tuple(seen["status"]) in statuses

    def value(self, label, name, order, other):
        seen = self.at(label)
        if not seen or name not in seen["values"] or other is None:
            return None
        value, other = seen["values"][name], name_gpu(other) if type(other) is str else other
        numbers = (int, float)
        if type(value) is not type(other) and not (type(value) in numbers and type(other) in numbers):
            number = [int(one) if type(one) is int or re.fullmatch(r"-?\d+", one) else one for one in (value, other)]
            value, other = number if type(number[0]) is type(number[1]) else (str(value), str(other))
        if type(value) is str and value != other and order not in ("eq", "ne"):
            return None
        return holds(value, order, other)

    def of(self, label, name):
        """A value of another step."""
        seen = self.at(label)
        return seen["values"].get(name) if seen else None

    def gpus(self, label, contexts):
        seen = self.at(label)
        state = seen and seen["probe"]
        if not state:
            return None
        if state["status"] == NOT_INITIALIZED:
            return [] if contexts else None
        if state["status"] == NO_DEVICE:
            return None if contexts else []
        if state["status"] != 0:
            return None
        if not contexts:
            return state["visible"]
        return sorted(gpu for gpu, active in zip(state["visible"], state["active"]) if active)

    def visible(self, label, expected):
        seen = self.at(label)
        if seen and seen["status"] and seen["status"][1] == NO_DEVICE and (seen["probe"] or {}).get("status") == 3:
            return expected == []
        found = self.gpus(label, False)
        return None if found is None else found == self.named(expected)

    def contexts(self, label, expected):
        found = self.gpus(label, True)
        return None if found is None else found == sorted(self.named(expected))

    def named(self, expected):
        return ["gpu%d" % gpu for gpu in range(len(GPUS))] if expected == "all" else expected

    def current(self, label, expected):
        state = (self.at(label) or {}).get("probe")
        if state and state["status"] == NOT_INITIALIZED:
            return expected == "none"
        return None if not state or state["status"] or state["current"] is None else state["current"] == expected

    def initialised(self, label, expected):
        state = (self.at(label) or {}).get("probe")
        return None if not state or state["status"] not in (0, 3) else (state["status"] == 0) == expected

    def used(self, label, gpu):
        seen = self.at(label)
        return seen["used"][gpu] if seen and gpu < len(GPUS) else None

    def memory(self, label, gpu, *classes):
        used, whole = self.used(label, gpu), COST.get(gpu, 0)
        if used is None or whole <= NOISE or used < -NOISE:
            return None
        margin = max(whole // 4, 64 << 20)
        kind = "none" if used <= NOISE else "touch" if used < whole // 2 else "context"
        return ("allocation" if used >= whole + margin else kind) in classes

    def used_bytes(self, label, gpu, order, other):
        used = self.used(label, gpu)
        return None if used is None else holds(used, order, other)

    def grown_bytes(self, label, gpu, order, other):
        used = self.used(label, gpu)
        if used is None:
            return None
        place = ORDERS[self.name]["labels"].index(label)
        before = self.steps[place - 1]["used"][gpu] if place else 0
        return None if before is None else holds(used - before, order, other)


def holds(one, order, other):
    return {"eq": one == other, "ne": one != other}[order] if order in ("eq", "ne") else {
        "ge": one >= other, "le": one <= other, "gt": one > other, "lt": one < other}[order]


COST = {}


class Memory:
    """NVML: the GPUs and their memory."""

    def __init__(self):
        self.nvml = load("libnvidia-ml.so.1", "libnvidia-ml.so")
        count = c_uint()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetCount_v2(byref(count)) or not count.value:
            print("NVML finds no GPU", file=sys.stderr)
            sys.exit(2)
        self.devices = []
        for index in range(count.value):
            device, uuid, pci = c_void_p(), ctypes.create_string_buffer(96), PciInfo()
            self.nvml.nvmlDeviceGetHandleByIndex_v2(c_uint(index), byref(device))
            self.nvml.nvmlDeviceGetUUID(device, uuid, c_uint(96))
            self.nvml.nvmlDeviceGetPciInfo_v3(device, byref(pci))
            self.devices.append(device)
            GPUS.append([uuid.value.decode(), pci.id.decode()])

    def read(self):
        used = []
        for device in self.devices:
            memory = MemoryInfo()
            used.append(memory.used if self.nvml.nvmlDeviceGetMemoryInfo(device, byref(memory)) == 0 else None)
        return used

    def at_rest(self):
        """Reads until it is the same twice, for at most five seconds."""
        used, until = self.read(), time.monotonic() + 5
        while time.monotonic() < until:
            time.sleep(0.001)
            before, used = used, self.read()
            if before == used:
                break
        return used


def is_gone(pid):
    """Whether a process is gone, or dead and not waited for."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def run_case(name, order, memory, first_gpu=0):
    """Runs a case in a fresh process, one step after the other."""
    global shared
    run = Run(name)
    if order["masked"] > len(GPUS):
        run.end = "too few GPUs"
        return run
    # Every variable of CUDA that was inherited could change the answer.
    variables = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}
    if order["masked"] == MASKED:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # gpu0 is CUDA's first and NVML's first
    else:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(uuid for uuid, _ in GPUS[first_gpu:first_gpu + order["masked"]])
    variables.update({key: filled(value) for key, value in order["environment"].items()})
    fd = os.memfd_create("reproducer", 0)
    os.ftruncate(fd, SHARED)
    shared = mmap.mmap(fd, SHARED)
    word(TURN, -1)
    hear, pipe = os.pipe()
    told = {"case": name, "actor": MAIN, "gpus": GPUS, "shared": fd, "pipe": pipe}
    variables["REPRODUCER"] = json.dumps(told)
    baseline = memory.at_rest()
    child = subprocess.Popen([sys.executable, os.path.abspath(__file__)], env=variables, pass_fds=(fd, pipe),
                             stdin=subprocess.DEVNULL, stdout=sys.stderr)
    os.close(pipe)
    pending = b""
    for number in range(len(order["labels"])):
        word(TURN, number)
        until, told = time.monotonic() + STEP_TIMEOUT, None
        while told is None and time.monotonic() < until:
            is_last = child.poll() is not None
            actor = word(PROCESS + 4 * order["actors"][number])
            is_last = is_last or bool(actor and is_gone(actor))
            if select.select([hear], [], [], 0.005)[0]:
                pending += os.read(hear, 65536)
            if b"\n" in pending:
                row, _, pending = pending.partition(b"\n")
                told = json.loads(row)
            elif is_last:
                break
        used = memory.at_rest()
        seen = told or {"status": None, "values": {}, "probe": None}
        seen["returned"] = told is not None
        seen["used"] = [now - then if None not in (now, then) else None for now, then in zip(used, baseline)]
        run.steps.append(seen)
        if told is None:
            run.end = "deadline" if time.monotonic() >= until else None
            break
    # Processes that others started leave first, as those that are waited for do.
    for actor in range(15, 0, -1):
        shared[LEAVE + actor] = 1
        started, until = word(PROCESS + 4 * actor), time.monotonic() + 5
        while started and not is_gone(started) and time.monotonic() < until:
            time.sleep(0.001)
    shared[LEAVE + MAIN] = 1
    if run.end is not None:
        child.kill()
    try:
        code = child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    reap()
    os.close(hear)
    os.close(fd)
    if run.end is None:
        early = "" if len(run.steps) == len(order["labels"]) else "early "
        run.end = "signal %d" % -code if code < 0 else "%s%d" % (early, code)
    return run


def reap():
    """Waits for processes that a case has left behind, which are this one's children now."""
    until = time.monotonic() + 5
    try:
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.001)
    except ChildProcessError:
        pass


class Names:
    """Names of errors, from the libraries, once everything is measured."""

    def __init__(self, runs):
        libraries = {seen["status"][0] for run in runs for seen in run.steps if seen["status"]}
        self.cuda = load("libcuda.so.1", "libcuda.so") if DRIVER in libraries else None
        self.cudart = load_runtime() if RUNTIME in libraries else None
        if self.cudart:
            self.cudart.cudaGetErrorName.restype = c_char_p

    def of(self, status):
        library, code = status
        name = c_char_p()
        if library == PYTHON:
            return code
        if library == RUNTIME:
            name.value = self.cudart.cudaGetErrorName(c_int(code))
        if library == DRIVER and self.cuda.cuGetErrorName(c_int(code), byref(name)):
            name.value = None
        if name.value:
            return name.value.decode()
        if library == LIBC:
            return errno.errorcode.get(code, str(code)) if code else "OK"
        return "NVML_SUCCESS" if library == NVML and code == 0 else "status %d" % code


def load_runtime():
    return load("libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0")


def rows(run, names):
    """The table of one case: a row for each step."""
    for number, label in enumerate(ORDERS[run.name]["labels"]):
        if number >= len(run.steps):
            yield [label] + [""] * (len(GPUS) + 2)
            continue
        seen = run.steps[number]
        told = [names.of(seen["status"])] if seen["status"] else []
        told += ["%s=%s" % item for item in seen["values"].items() if item[1] != "bound"]
        memory = ["?" if used is None else "%+.1f" % (used / (1 << 20)) for used in seen["used"]]
        contexts = ",".join(run.gpus(label, True) or []) or "-"
        yield [label, " ".join(told)[:60] if seen["returned"] else "(did not return)"] + memory + [contexts]


def table(runs):
    names = Names(runs)
    head = ["returned"] + ["gpu%d" % gpu for gpu in range(len(GPUS))] + ["contexts"]
    parts = [[[run.name] + head] + list(rows(run, names)) for run in runs]
    lines = []
    for number in range(max(map(len, parts))):
        cells = []
        for part in parts:
            widths = [max(len(row[column]) for row in part) for column in range(len(part[0]))]
            row = part[number] if number < len(part) else [""] * len(widths)
            justify = [str.ljust, str.ljust] + [str.rjust] * len(GPUS) + [str.ljust]
            cells.append("  ".join(one(cell, width) for one, cell, width in zip(justify, row, widths)))
        lines.append(" | ".join(cells).rstrip())
    return "\n".join(lines)


def lacks(need):
    """What this interpreter lacks of `torch >= 2.0` or `numba-cuda | numba`; None if nothing."""
    from importlib import metadata, util

    there = []
    for one in need.split("|"):
        name, bounds = re.fullmatch(r"\s*([\w.-]+)\s*(.*?)\s*", one).groups()
        try:
            version = "%d.%d.%d" % sys.version_info[:3] if name == "python" else metadata.version(name)
        except metadata.PackageNotFoundError:
            if bounds or "-" in name or "." in name or util.find_spec(name) is None:
                continue
            return None
        there.append("%s %s" % (name, version))
        if all(in_bound(version, *re.fullmatch(r"\s*([<>=!]+)\s*([\d.]+).*", bound).groups())
               for bound in bounds.split(",") if bound):
            return None
    return "%s, and there is %s" % (need, ", ".join(there) or "none")


def in_bound(version, order, other):
    """Whether a version lies in a bound; it is compared by as many numbers as the bound has."""
    other = [int(number) for number in other.split(".") if number]
    found = [int(number) for number in re.match(r"[\d.]*", version).group().split(".") if number]
    found = (found + [0] * len(other))[:len(other)]
    order = {"=": "==", "!": "!="}.get(order, order)
    return holds(found, {"==": "eq", "!=": "ne", ">=": "ge", "<=": "le", ">": "gt", "<": "lt"}[order], other)


def main():
    environ.prctl(PR_SET_CHILD_SUBREAPER, 1)
    memory = Memory()
    if len(GPUS) < NEEDED_GPUS:
        print("this takes %d GPUs, and there are %d" % (NEEDED_GPUS, len(GPUS)), file=sys.stderr)
        return 2
    missing = [lack for lack in map(lacks, NEEDS) if lack]
    if missing:
        print("this takes " + "; ".join(missing), file=sys.stderr)
        return 2
    print(QUESTION, end="\n\n")
    cost = {"masked": 1, "environment": {}, "labels": ["context"], "actors": [MAIN]}
    for gpu in range(len(GPUS) if MEASURES_CONTEXT else 0):
        seen = run_case("(context)", cost, memory, gpu).steps[0]
        if seen["status"] == [DRIVER, 0]:
            COST[gpu] = seen["used"][gpu]
    runs, shows = [], []
    for name, order in ORDERS.items():
        print("%s: %s" % (name, order["does"]), flush=True)
        runs.append(run_case(name, order, memory))
        shows.append(effect(runs[-1]))
    print("\n" + table(runs))
    cost = " A context costs %.1f MiB here." % (COST[0] / (1 << 20)) if COST else ""
    print("\nMemory of each GPU in MiB, by NVML, since before the case." + cost)
    for run, show in zip(runs, shows):
        told = {True: "shows", False: "does not show", None: "cannot be told"}[show]
        print("%s: the effect %s%s" % (run.name, told, "" if run.end == "0" else " (ended with %s)" % run.end))
    trap, control = shows[0], shows[-1] if len(shows) > 1 else False
    code = 2 if trap is None or control is not False else 0 if trap else 1
    print(["reproduced (exit 0)", "not reproduced (exit 1)",
           "cannot tell: the control shows the effect too (exit 2)" if control else "cannot tell (exit 2)"][code])
    return code


def make_context():
    """What a context costs: made in a process of its own before the cases."""
    cuda, context = load("libcuda.so.1", "libcuda.so"), c_void_p()
    with step("context") as seen:
        if seen.returned(DRIVER, cuda.cuInit(c_uint(0))):
            seen.returned(DRIVER, cuda.cuDevicePrimaryCtxRetain(byref(context), c_int(0)))
    leave()
