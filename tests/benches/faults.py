"""Runs the program on the simulated machine, disturbs it, and holds how it ends against a run that nothing disturbs.

usage: python3 tests/benches/faults.py PROGRAM [--trials N | --seconds S] [--seed S] [--jobs J] [--out DIR]
       python3 tests/benches/faults.py PROGRAM --seed S --only I      repeats one trial, and keeps its folder

A trial is its seed and its number: the workload, the fault and the moment follow from them. How far the processes are
when a signal reaches them does not. The exit code is 1 if anything is wrong.

Linux. System calls are failed by a seccomp filter that asks this program (x86-64, Linux 5.9, root or ptrace of its
children); full disks are tmpfs in a mount namespace of the trial (root); jumps of the clock are a library before the C
library, for CLOCK_REALTIME and CLOCK_BOOTTIME, made by `cc`. What this machine cannot do is counted as not run.
"""

import argparse
import collections
import ctypes
import errno
import fcntl
import glob
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
HANG_S = 60
# A process that stays stopped costs a run its deadlines: 30 s for a step, 120 s for an attempt.
STOPPED_HANG_S = 200
CONCLUSIVE = ("reproduced", "not_reproduced")
CODES = {0, 1, 2, 3, 4, 5, 6, 70, 74, 127, 130, 131, 143}

EXECVE, SIGACTION, FUTEX = 59, 13, 202

PROGRAM = """import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
if "context" in sys.argv: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
time.sleep(.1)
child = os.fork()
if child == 0:
    time.sleep(.05)
    os._exit(0)
os.waitpid(child, 0)
os._exit(33)
"""
INTERPRETED = [sys.executable, "-I", "-S", "-c", PROGRAM]

# A name, what it is, and its arguments. `{out}` is a folder of the trial; `{base}` a report of an undisturbed run.
RUN = ["run", "--on", "sim", "--quick", "--seed", "7", "--out", "{out}"]
WORKLOADS = [
    ("run: fork", "run", [*RUN, "-q", "process/fork-after-cuinit", "process/exec-gives-a-fresh-driver"]),
    ("run: memory, JSON", "run", [*RUN, "--json", "memory/context-cost"]),
    ("run: masks, JUnit", "run", [*RUN, "--junit", "{out}/junit.xml", "visibility/default-order",
                                  "visibility/mask-after-cuinit"]),
    ("run: compact", "run", [*RUN, "--compact", "context/failed-call-makes-one"]),
    ("trace", "trace", ["trace", "--on", "sim", "--out", "{out}", "--", *INTERPRETED, "context"]),
    ("trace: no CUDA", "trace", ["trace", "--on", "sim", "--out", "{out}", "--", "sh", "-c", "sleep .1; exit 5"]),
    ("trace --memory", "trace", ["trace", "--memory", "--on", "sim", "--out", "{out}", "--", *INTERPRETED, "context"]),
    ("trace: forbidden", "policy", ["trace", "--on", "sim", "--out", "{out}", "--forbid", "context", "--junit",
                                    "{out}/junit.xml", "--", *INTERPRETED, "context"]),
    ("trace: policy kept", "policy", ["trace", "--on", "sim", "--out", "{out}", "--forbid", "context", "--",
                                      *INTERPRETED]),
    ("survey", "survey", ["survey", "mask", "unset", "0", "1", "0,1", "--on", "sim", "--repeat", "1", "--out",
                          "{out}"]),
    ("judge", "reader", ["judge", "{base}", "--json"]),
    ("render", "reader", ["render", "{base}", "--as", "html"]),
]

# System calls of x86-64 that the program makes: the number, about how many a process of `run` and of `trace` makes, and
# the errors that it can have where its arguments are right. `close` is not there: one that fails has closed all the
# same, which a filter cannot do.
CALLS = {call: (number, run, trace, errors.split()) for call, number, run, trace, errors in [
    ("read", 0, 700, 600, "EIO EINTR"), ("write", 1, 60, 23, "EIO ENOSPC EDQUOT EFBIG EINTR EPIPE"),
    ("poll", 7, 1, 1, "EINTR ENOMEM"), ("lseek", 8, 6, 240, "EIO"), ("mmap", 9, 37, 23, "ENOMEM"),
    ("mprotect", 10, 6, 22, "ENOMEM"), ("munmap", 11, 37, 20, "ENOMEM"), ("ioctl", 16, 45, 6, "ENOTTY EIO"),
    ("pread64", 17, 17, 45, "EIO EINTR"), ("pwrite64", 18, 7, 0, "EIO ENOSPC EDQUOT EINTR"),
    ("socket", 41, 0, 1, "EMFILE ENFILE ENOMEM EACCES EPERM EAFNOSUPPORT"), ("listen", 50, 0, 2, "EADDRINUSE"),
    ("sendto", 44, 400, 20, "EAGAIN ECONNRESET EINTR ENOBUFS ENOMEM EPIPE"),
    ("recvfrom", 45, 900, 18, "EAGAIN ECONNREFUSED EINTR ENOMEM"), ("recvmsg", 47, 500, 19, "EAGAIN EINTR ENOMEM"),
    ("shutdown", 48, 7, 1, "ENOTCONN ENOBUFS"), ("bind", 49, 0, 1, "EACCES EADDRINUSE ENOSPC EROFS ENOMEM"),
    ("socketpair", 53, 40, 4, "EMFILE ENFILE EAFNOSUPPORT EPERM"), ("getsockopt", 55, 0, 18, "ENOBUFS EPERM"),
    ("clone", 56, 1, 2, "EAGAIN ENOMEM EPERM ENOSPC"), ("clone3", 435, 32, 4, "EAGAIN ENOMEM ENOSYS EPERM"),
    ("execve", 59, 1, 1, "EACCES ENOENT ENOMEM EIO EMFILE ETXTBSY E2BIG EPERM EAGAIN"),
    ("kill", 62, 0, 2, "EPERM ESRCH"),
    ("wait4", 61, 30, 17, "EINTR ECHILD"), ("fcntl", 72, 160, 11, "EMFILE EAGAIN EACCES EINTR ENOLCK"),
    ("flock", 73, 3, 4, "EINTR ENOLCK EWOULDBLOCK"), ("fsync", 74, 26, 3, "EIO ENOSPC EROFS EDQUOT EINTR"),
    ("getcwd", 79, 0, 2, "ENOENT EACCES ENOMEM"), ("rename", 82, 5, 5, "EIO ENOSPC EACCES EROFS EXDEV"),
    ("mkdir", 83, 11, 8, "ENOSPC EACCES EROFS EEXIST EMLINK EIO"), ("unlink", 87, 8, 8, "EACCES EIO EBUSY EROFS"),
    ("symlink", 88, 8, 9, "ENOSPC EACCES EROFS EEXIST"), ("readlink", 89, 145, 39, "EACCES EIO ENOENT"),
    ("chmod", 90, 1, 6, "EPERM EROFS EIO"), ("fchmod", 91, 0, 1, "EPERM EROFS EIO"),
    ("sigaltstack", 131, 6, 12, "ENOMEM"),
    ("statfs", 137, 0, 2, "EIO ENOSYS EACCES"), ("prctl", 157, 33, 6, "EINVAL EPERM"),
    ("futex", 202, 3, 38, "EINTR EAGAIN"),
    ("sched_getaffinity", 204, 4, 13, "EPERM ESRCH"), ("getdents64", 217, 124, 30, "EIO ENOENT EINTR"),
    ("clock_nanosleep", 230, 116, 3, "EINTR"), ("newfstatat", 262, 5, 11, "EACCES EIO ENOMEM ENOENT"),
    ("openat", 257, 272, 144, "EMFILE ENFILE EACCES EIO ENOENT EINTR ENOMEM ENOSPC EROFS EPERM"),
    ("unlinkat", 263, 18, 24, "EACCES EIO EBUSY EROFS EPERM"), ("renameat", 264, 13, 1, "EIO ENOSPC EACCES EROFS"),
    ("ppoll", 271, 700, 108, "EINTR ENOMEM"), ("accept4", 288, 0, 50, "EMFILE ENFILE EINTR ECONNABORTED EPERM"),
    ("pipe2", 293, 58, 1, "EMFILE ENFILE"), ("prlimit64", 302, 183, 10, "EPERM"),
    ("process_vm_readv", 310, 0, 312, "EPERM ESRCH ENOMEM ENOSYS"),
    ("renameat2", 316, 0, 1, "EIO ENOSPC EACCES EINVAL"),
    ("getrandom", 318, 3, 3, "EINTR ENOSYS"), ("statx", 332, 145, 200, "EACCES EIO ENOSYS ENOMEM ENOENT"),
    ("pidfd_open", 434, 62, 4, "EMFILE ENOSYS EPERM ENODEV"),
]}
# `judge` and `render` read files, and make a few calls alone.
OF_READERS = ("read write mmap munmap openat statx getrandom poll sigaltstack mprotect newfstatat ioctl "
              "getdents64").split()
SIGNALS = [signal.Signals[f"SIG{name}"] for name in
           "KILL KILL TERM TERM INT HUP SEGV ABRT BUS ALRM PIPE CHLD USR1 USR2 QUIT XCPU IO VTALRM URG WINCH".split()]
LIMITS = [
    ("NOFILE", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 32, 48]),
    ("AS", [size << 20 for size in (30, 60, 80, 100, 150, 200, 400, 800)]),
    ("FSIZE", [0, 1, 100, 4096, 20_000, 60_000, 200_000, 2_000_000]),
    ("STACK", [size << 10 for size in (16, 64, 128, 512)]),
    ("DATA", [size << 20 for size in (1, 4, 16, 64)]), ("CPU", [0, 1]), ("MEMLOCK", [0]), ("SIGPENDING", [0, 1]),
    ("CORE", [0]),
    ("NPROC", [1, 5, 50]),
]
# Half of the trials are failed system calls: there are most of these.
KINDS = ["syscall", "signal", "syscall", "disk", "syscall", "limit", "syscall", "stop", "signal", "clock"]
JUMPS = [1, -1, 3600, -3600, 86_400, -86_400, -40 * 365 * 86_400, 8000 * 365 * 86_400]
CLOCK = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
static int calls;
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    const char *at = getenv("FAULT_JUMP_AT"), *by = getenv("FAULT_JUMP_S");
    long seconds = by ? atol(by) : 0;
    if (at && (clock == CLOCK_REALTIME || (clock == CLOCK_BOOTTIME && seconds > 0)) && ++calls >= atol(at))
        now->tv_sec += seconds;
    if (now->tv_sec < 0) now->tv_sec = 0;
    return result;
}
"""


def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def own_mounts():
    """Gives this process mounts of its own, so that nothing reaches the machine's, and an empty `/run`."""
    check(LIBC.unshare(0x20000), "unshare")
    check(LIBC.mount(b"none", b"/", None, 16384 | 1 << 18, None), "private mounts")
    mount("/run", "size=64m")


def mount(folder, options):
    check(LIBC.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, options.encode()), folder)


def descendants(root):
    """The living processes below one, parents first, with the name and the state of each."""
    below, names = collections.defaultdict(list), {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                pid, rest = file.read().split(" (", 1)
        except OSError:
            continue
        name, rest = rest.rsplit(") ", 1)
        names[int(pid)] = f"{name} {rest[0]}"
        if rest[0] != "Z":
            below[int(rest.split()[1])].append(int(pid))
    found = [root]
    for parent in found:
        found += sorted(below[parent])
    return {pid: names.get(pid, "") for pid in found[1:]}


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Filter:
    """Fails one system call, the n-th of a process and perhaps later ones, from where its `main` begins."""

    def __init__(self, program, call, error, nth, step, everywhere):
        self.program, self.error, self.nth, self.step = program, error, nth, step
        self.call, self.everywhere, self.failed = CALLS[call][0], everywhere, 0
        self.began, self.counts = {}, collections.Counter()

    def install(self):
        """In the child. The kernel asks about the call, about `execve`, and about the first call of Rust's runtime."""
        bpf = struct.Struct("HBBI").pack
        code = [bpf(0x20, 0, 0, 0), bpf(0x15, 4, 0, self.call), bpf(0x15, 3, 0, EXECVE), bpf(0x15, 0, 3, SIGACTION),
                bpf(0x20, 0, 0, 16), bpf(0x15, 0, 1, signal.SIGPIPE), bpf(0x06, 0, 0, 0x7FC00000),
                bpf(0x06, 0, 0, 0x7FFF0000)]
        buffer = ctypes.create_string_buffer(b"".join(code))
        head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)))
        check(LIBC.prctl(38, 1, 0, 0, 0), "no_new_privs")
        check(LIBC.syscall(317, 1, 8, head), "seccomp")

    def take(self, pid, number):
        """In the parent. The child cannot send the descriptor: sending may be what the filter asks about."""
        self.main, process = pid, os.pidfd_open(pid)
        end = time.monotonic() + 10
        while (taken := LIBC.syscall(438, process, number, 0)) < 0:
            if ctypes.get_errno() != errno.EBADF or time.monotonic() > end:
                raise OSError(ctypes.get_errno(), "pidfd_getfd")
        os.close(process)
        self.listener = taken

    def answer(self):
        asked = bytearray(80)
        try:
            fcntl.ioctl(self.listener, 0xC0502100, asked)
            identity, tid, _, call, _, _, first, second = struct.unpack("QIIiIQQQ", asked[:48])
            # What wakes others up does not fail; only a `futex` that waits does.
            wakes = call == FUTEX and second & 127 not in (0, 9)
            error = 0 if wakes else self.decide(tid, call, call == SIGACTION and first == signal.SIGPIPE)
            fcntl.ioctl(self.listener, 0xC0182101, struct.pack("QqiI", identity, 0, -error, 0 if error else 1))
        except OSError as gone:
            if gone.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def decide(self, tid, call, begins):
        """The error for a system call of a thread; 0 to let it pass."""
        try:
            with open(f"/proc/{tid}/status") as file:
                fields = dict(line.split(":\t", 1) for line in file if ":\t" in line)
            pid, parent = int(fields["Tgid"]), int(fields["PPid"])
            if begins:
                self.began[pid] = os.readlink(f"/proc/{pid}/exe") == self.program
        except OSError:
            return 0
        is_ours = self.began.setdefault(pid, self.began.get(parent, False)) and (self.everywhere or pid == self.main)
        if begins or call != self.call or not is_ours:
            self.began[pid] &= call != EXECVE
            return 0
        self.counts[pid] += 1
        past = self.counts[pid] - self.nth
        if past == 0 or (self.step and past > 0 and past % self.step == 0):
            self.failed += 1
            return self.error
        self.began[pid] &= call != EXECVE
        return 0


class Trial:
    """One workload with the fault of its seed and number, or with none."""

    def __init__(self, number=None, workload=None):
        self.number, self.folder = number, f"{WORK}/{os.getpid() if number is None else number}"
        chance = self.chance = random.Random(f"{OPTIONS.seed}:{number}")
        self.kind = None if number is None else KINDS[number % len(KINDS)]
        self.name, self.what, self.words = workload or chance.choice(WORKLOADS)
        self.note, self.sent, self.environment, self.mounts, self.signals = "", set(), {}, [], []
        self.limit = self.filter = None
        self.stdout_path = f"{self.folder}/stdout"
        self.longest_s = STOPPED_HANG_S
        # Where nothing that is said on stderr, or printed, can be asked for.
        self.is_deaf = False

    def choose(self, base_s):
        """The fault. `base_s` is how long the workload takes where nothing disturbs it: the machine may be busy."""
        chance, self.longest_s = self.chance, max(HANG_S, 30 * base_s)
        if self.kind == "syscall":
            column = 2 if self.what in ("trace", "policy") else 1
            is_reader = self.what == "reader"
            call = chance.choice(OF_READERS if is_reader else [call for call in CALLS if CALLS[call][column]])
            most, error = min(CALLS[call][column], 6 if is_reader else 9999), chance.choice(CALLS[call][3])
            # Half of them spread evenly, and half where a process begins.
            nth = 1 + int(chance.choice([.8 * most * chance.random(), most ** chance.random() - 1]))
            # A kernel does not interrupt a call for ever, not every name is taken, and a child is lost once.
            step = chance.choice([0, 0, 0, 2, 7] if error in ("EINTR", "EAGAIN", "EEXIST") else [0, 0, 0, 1, 2, 7])
            step *= error != "ECHILD"
            everywhere = chance.random() < .5
            self.filter = Filter(OPTIONS.program, call, getattr(errno, error), nth, step, everywhere)
            self.is_deaf = call == "write"
            self.note = (f"{call} {nth}{f' and each {step}. after it' if step else ''} of "
                         f"{'each process' if everywhere else 'the first process'}: {error}")
        elif self.kind in ("signal", "stop"):
            for _ in range(chance.choice([1, 1, 1, 2, 4])):
                number = chance.choice(SIGNALS) if self.kind == "signal" else signal.SIGSTOP
                again_s = chance.choice([.1, .5, 1, 3, None])
                self.signals.append((chance.random() * base_s * 1.1, chance.random(), number, again_s))
            self.signals.sort(key=lambda sent: sent[0])
        elif self.kind == "disk":
            where = chance.choice(["out", "tmp", "run", "out tmp run", "stdout"])
            size = chance.choice([4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 40_000])
            inodes = chance.choice(["", "", ",nr_inodes=2", ",nr_inodes=8", ",nr_inodes=20", ",nr_inodes=30"])
            self.note = f"{size} KiB{inodes} in {where}"
            if where == "stdout":
                self.stdout_path, self.note, where = "/dev/full", "stdout is full", ""
            self.mounts = [(place, f"size={size}k{inodes}") for place in where.split()]
        elif self.kind == "limit":
            name, values = chance.choice(LIMITS)
            self.limit = (getattr(resource, f"RLIMIT_{name}"), chance.choice(values))
            self.is_deaf = name == "FSIZE"
            self.note = f"RLIMIT_{name} = {self.limit[1]}"
        elif self.kind == "clock":
            at, by = chance.choice([1, 2, 3, 4, 6, 9, 15, 30]), chance.choice(JUMPS)
            self.environment = {"LD_PRELOAD": f"{WORK}/clock.so", "FAULT_JUMP_AT": str(at), "FAULT_JUMP_S": str(by)}
            self.note = f"the {at}. reading of the clock and later ones jump by {by} s"

    def become(self, arguments, environment, pipe):
        """In the child: becomes the program."""
        try:
            os.setsid()
            os.chdir(self.folder)
            for number, path in enumerate(["/dev/null", self.stdout_path, f"{self.folder}/stderr"]):
                opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                os.dup2(opened, number)
                os.close(opened)
            if self.limit:
                resource.setrlimit(self.limit[0], (self.limit[1], self.limit[1]))
            if self.filter:
                # The filter's descriptor will be the lowest that is free.
                free = os.dup(0)
                os.close(free)
                os.write(pipe, struct.pack("i", free))
                self.filter.install()
            os.execve(OPTIONS.program, arguments, environment)
        except BaseException as error:  # Whatever it is, this process must end here.
            os.write(2, f"faults.py: {error!r}\n".encode())
        finally:
            os._exit(99)

    def run(self):
        """Runs it and everything that it starts to the end. The code is `None` if it hangs, and -N for signal N."""
        places = {"out": f"{self.folder}/out", "tmp": f"{self.folder}/tmp", "run": "/run"}
        for path in (places["out"], places["tmp"]):
            os.makedirs(path)
        # Whatever outlives its parent becomes a child of this process.
        check(LIBC.prctl(36, 1, 0, 0, 0), "subreaper")
        if "disk" not in LACKS:
            own_mounts()
            for place, options in self.mounts:
                mount(places[place], options)
        environment = {"PATH": os.environ["PATH"], "HOME": self.folder, "TMPDIR": places["tmp"], "LC_ALL": "C.UTF-8",
                       **self.environment}
        arguments = [OPTIONS.program, *(word.replace("{out}", places["out"]).replace("{base}", f"{WORK}/document")
                                        for word in self.words)]
        (reader, writer), begun = os.pipe(), time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self.become(arguments, environment, writer)
        if self.filter:
            self.filter.take(self.pid, struct.unpack("i", os.read(reader, 4))[0])
        self.code = self.wait(begun)
        self.seconds = round(time.monotonic() - begun, 2)
        self.orphans = self.rest()
        self.printed, self.said = (read(f"{self.folder}/{name}") for name in ("stdout", "stderr"))
        kept = glob.glob(f"{places['tmp']}/*") + ([] if "disk" in LACKS else glob.glob("/run/cuda-pitfalls/*"))
        # The hook of a trace stays, because a process that goes on has its name.
        self.left = [path for path in kept if not os.path.basename(path).startswith("hook-")]

    def wait(self, begun):
        """Sends the signals and answers the filter until the program has ended."""
        poller, stopped, signals = select.poll(), {}, list(self.signals)
        if self.filter:
            poller.register(self.filter.listener, select.POLLIN)
        stays = self.kind == "stop" and any(again_s is None for *_, again_s in signals)
        longest, looked, asked = max(self.longest_s, STOPPED_HANG_S if stays else 0), 0.0, begun
        while True:
            if any(event & select.POLLIN for _, event in poller.poll(4)):
                self.filter.answer()
                asked = time.monotonic()
            now = time.monotonic()
            if now - looked < .004:
                continue
            looked = now
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            # On a busy machine a call waits long for its answer, and a process makes thousands.
            is_slow = now - asked < 5 and now - begun < STOPPED_HANG_S
            late = (now - begun > longest and not is_slow) or now > END + 20
            for pid, at in list(stopped.items()):
                # What stays stopped is no orphan.
                if now > at or ended:
                    kill(pid, signal.SIGCONT)
                    del stopped[pid]
            if ended:
                return os.waitstatus_to_exitcode(status)
            while signals and now - begun > signals[0][0]:
                _, which, number, again_s = signals.pop(0)
                below = descendants(self.pid)
                # One in three is for the first process.
                pid = [self.pid, *below][min(len(below), max(0, int((which - 1 / 3) * 1.5 * (len(below) + 1))))]
                kill(pid, number)
                self.sent.add(int(number))
                self.note += f"{number.name} to {'the first process' if pid == self.pid else below[pid]}; "
                if number == signal.SIGSTOP:
                    # A run has a deadline for its processes. Nobody has one for a run, or for a traced program.
                    waits = pid == self.pid or self.what in ("trace", "policy")
                    stopped[pid] = now + (again_s or (3 if waits else float("inf")))
            if late:
                self.note += f" {'not waited for' if now > END + 20 else 'still there'}: {descendants(self.pid)}"
                kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return None

    def rest(self):
        """Waits until nothing is left of what was started, and ends what stays, which it names."""
        end = time.monotonic() + 8
        while (living := descendants(os.getpid())) and time.monotonic() < end:
            if self.filter and select.select([self.filter.listener], [], [], .01)[0]:
                try:
                    self.filter.answer()
                except OSError:
                    self.filter.listener = os.pipe()[0]
            time.sleep(.002 if self.filter else .01)
        for pid in living:
            kill(pid, signal.SIGKILL)
        return [f"{pid} {name}" for pid, name in living.items()]

    def seen(self):
        """How it ended, as far as two undisturbed runs are alike: the code, and what the documents say."""
        end = {"code": self.code, "there": False, "stated": None, "complete": False, "facts": {}}
        if self.what in ("run", "survey"):
            paths = glob.glob(f"{self.folder}/out/*/{'survey-*' if self.what == 'survey' else '*report*'}.json")
            found = parsed(read(paths[0])) if paths else None
            about = (found or {}).get("survey" if self.what == "survey" else "run") or {}
            end.update(there=bool(paths), is_broken=bool(paths) and found is None)
            end["complete"] = (found or {}).get("complete")
            end["stated"] = (about.get("exit") or {}).get("code")
            for scenario in (found or {}).get("scenarios") or []:
                kind = scenario["verdict"]["kind"]
                end["facts"][scenario["name"]] = kind if kind in CONCLUSIVE else None
            for row in (found or {}).get("rows") or []:
                facts = {name: row[name] for name in ("count", "gpus", "status", "as_predicted")}
                end["facts"][row["key"]] = facts if row["is_conclusive"] else None
        elif self.what in ("trace", "policy"):
            text = "".join(read(path) for path in glob.glob(f"{self.folder}/out/*/trace.ndjson"))
            lines = [line for line in map(parsed, text.splitlines()) if line]
            last = lines[-1] if lines and lines[-1]["line"] == "end" else None
            end.update(there=bool(lines), complete=bool(last) and not last["not_seen"] and not last["left_out"])
            for name in ("init_done", "context", "forked"):
                end["facts"][name] = sum(line.get("event") == name for line in lines)
        else:
            end["facts"] = {"printed": self.printed}
        return end

    def wrong(self, end, base):
        """What must not be."""
        code, said, facts = self.code, self.said, end["facts"]
        # Rust's runtime cannot begin without a stack for its handler of signals, and does not outlive its own.
        if "alternative stack" in said or ("has overflowed its stack" in said and "STACK" in self.note):
            return
        # Two libraries panic where a socket of their own fails as no kernel lets it.
        if said.count("panicked") > said.count("the CLOEXEC pipe failed") + said.count("/signal-hook-"):
            yield "panic"
        if code is None:
            if "not waited for" not in self.note:
                yield "hang"
            return
        yield from (f"orphan {orphan}" for orphan in self.orphans)
        if code < 0:
            # Without memory, and beyond a limit of the kernel, nobody ends well.
            is_limited = "memory allocation of" in said or (self.kind == "limit" and -code != signal.SIGABRT)
            if -code not in self.sent and not is_limited:
                yield f"died by signal {-code}"
            return
        if not self.is_deaf:
            yield from (f"left {path}" for path in self.left if os.path.basename(path) not in said)
        if "{out}/junit.xml" in self.words and code == base["code"] and not self.is_deaf and "junit" not in said:
            if not read(f"{self.folder}/out/junit.xml").rstrip().endswith("</testsuites>"):
                yield "no whole JUnit file, and nothing says so"
        own = 5 if self.name == "trace: no CUDA" else 33
        if self.what in ("run", "survey"):
            yield from (f"{name}: {fact}" for name, fact in facts.items() if fact and fact != base["facts"].get(name))
            # What is not printed is 74, and where nothing can be written the report cannot be told.
            is_untold = code == 74 and (self.is_deaf or re.search(r"cannot write `.*/report\.json`", said))
            if end["stated"] not in (None, code) and not is_untold:
                yield f"the document says {end['stated']}, the shell {code}"
            if code == 0 and not (end["complete"] and facts.keys() == base["facts"].keys()):
                yield "exit 0 with a partial document, or without one"
            if end["is_broken"]:
                yield "a broken document"
            # With three descriptors the loader cannot open a library, and the program never begins.
            has_begun = not (code == 127 and "error while loading shared libraries" in said)
            if "--json" in self.words and code != 74 and self.stdout_path != "/dev/full" and not self.is_deaf and has_begun:
                printed = parsed(self.printed)
                stated = ((printed or {}).get("run", printed) or {}).get("exit", {"code": "nothing"})
                if stated and stated["code"] != code:
                    yield f"stdout says {stated['code']}, the shell {code}"
        elif code == 0 and facts != base["facts"] and self.stdout_path != "/dev/full" and "EPIPE" not in self.note:
            yield "exit 0 with another output"
        if self.what not in ("trace", "policy"):
            if code not in CODES or code == 1:
                yield f"exit code {code}"
            return
        # A limit and a disk are the program's, too, and a signal may reach it: then its end is its own.
        allowed = {own, 70, 74, 126, 127, *(128 + number for number in self.sent)}
        allowed |= {1, 3} if self.what == "policy" else set()
        if self.sent or self.kind in ("limit", "disk"):
            allowed |= {1, 9, *(128 + number for number in (6, 7, 9, 11, 24, 25))}
        elif code == 1 and base["code"] != 1:
            yield "a policy failed"
        if code not in allowed:
            yield f"exit code {code}"
        if self.what == "policy" and code in (0, own) and (base["code"] == 1 or not end["complete"]):
            yield "a policy passed, and the evidence is missing"
        if code == own and end["complete"] and facts != base["facts"]:
            yield f"a whole trace has {facts}"
        is_silent = "cuda-pitfalls" not in said and not self.is_deaf
        if is_silent and (code in (70, 74, 126) or (code == own and not end["there"])):
            yield f"exit {code} without a trace, and nothing says why"


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def undisturbed(workload):
    """How a workload ends where nothing disturbs it: twice, and both must be alike."""
    ends = []
    for _ in range(2):
        trial = Trial(workload=workload)
        shutil.rmtree(trial.folder, ignore_errors=True)
        trial.run()
        ends.append(trial.seen())
        if trial.orphans or trial.left or trial.code not in (0, 1, 5, 33) or ends[0] != ends[-1]:
            raise ValueError(f"not as it should be where nothing disturbs it: {vars(trial)}, {ends}")
    if workload == WORKLOADS[0]:
        shutil.move(glob.glob(f"{trial.folder}/out/*")[0], f"{WORK}/document")
    return {**ends[0], "workload": trial.name, "seconds": trial.seconds, "bad": []}


def disturbed(number, bases):
    """One trial, as what is kept of it."""
    trial = Trial(number)
    result = {"number": number, "kind": trial.kind, "workload": trial.name, "outcome": "not run", "bad": []}
    if trial.kind in LACKS:
        return result
    base = bases[trial.name]
    trial.choose(base["seconds"])
    trial.run()
    end = trial.seen()
    is_same = trial.code == base["code"] and end["facts"] == base["facts"]
    if is_same:
        outcome = "the same" if not trial.filter or trial.filter.failed else "no such call"
    elif trial.code is None or trial.code < 0:
        outcome = "killed"
    else:
        outcome = "less in the document" if end["there"] else f"exit {trial.code}"
    result.update(outcome=outcome, bad=list(trial.wrong(end, base)), note=trial.note, code=trial.code,
                  seconds=trial.seconds, left=len(trial.left))
    if result["bad"]:
        result["stderr"] = trial.said[-4000:]
    if OPTIONS.only is None:
        shutil.rmtree(trial.folder, ignore_errors=True)
    else:
        print(json.dumps(result, indent=1), trial.said, f"its folder: {trial.folder}", sep="\n")
    return result


def apart(function, *arguments):
    """Starts a process that calls a function. It may change its mounts, and inherits orphans."""
    pid = os.fork()
    if pid == 0:
        try:
            result = function(*arguments)
        except BaseException as error:  # What is wrong with this program is a failure, too.
            result = {"number": arguments[:1], "kind": "faults.py", "workload": "", "outcome": "", "bad": [repr(error)]}
        with open(f"{WORK}/{os.getpid()}.json", "w") as file:
            json.dump(result, file)
        os._exit(0)
    return pid


def next_result():
    pid, _ = os.wait()
    result = parsed(read(f"{WORK}/{pid}.json"))
    os.unlink(f"{WORK}/{pid}.json")
    return result


def results_of(bases):
    """The results, as they come."""
    numbers = iter([OPTIONS.only] if OPTIONS.only is not None else range(OPTIONS.trials or sys.maxsize))
    running, number = 0, 0
    while number is not None or running:
        while number is not None and running < OPTIONS.jobs:
            number = next(numbers, None) if time.monotonic() < END else None
            if number is not None:
                apart(disturbed, number, bases)
                running += 1
        if running:
            running -= 1
            yield next_result()


def table(results):
    """A line for each kind: its trials, how they ended, and how many are wrong."""
    print(f"{'kind':9} {'trials':>6} {'bad':>4} {'longest':>8}  outcomes")
    for kind in [*sorted({result["kind"] for result in results}), "all"]:
        rows = [row for row in results if kind in (row["kind"], "all")]
        ran = [row for row in rows if row["outcome"] not in ("not run", "no such call")]
        outcomes = collections.Counter(row["outcome"] for row in rows).most_common()
        print(f"{kind:9} {len(ran):6} {sum(bool(row['bad']) for row in rows):4} "
              f"{max((row.get('seconds', 0) for row in ran), default=0):6.1f} s  "
              + ", ".join(f"{count} {outcome}" for outcome, count in outcomes))


def main():
    global WORK, LACKS, END, OPTIONS
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("program", type=os.path.realpath)
    for name in ("trials", "seconds", "only"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--out")
    OPTIONS = parser.parse_args()
    WORK, LACKS, END = tempfile.mkdtemp(prefix="faults-"), {}, time.monotonic() + (OPTIONS.seconds or float("inf"))
    apart(own_mounts)
    if next_result() is not None:
        LACKS["disk"] = "no mounts"
    compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{WORK}/clock.so"]
    if not shutil.which("cc") or subprocess.run(compiler, input=CLOCK, text=True).returncode:
        LACKS["clock"] = "no cc"
    if os.uname().machine != "x86_64":
        LACKS["syscall"] = "not x86-64"
    print("".join(f"not run: {kind}: {why}\n" for kind, why in LACKS.items()), end="")
    bases, results = {}, []
    # The first one makes the document that others read.
    for workloads in (WORKLOADS[:1], WORKLOADS[1:]):
        for workload in workloads:
            apart(undisturbed, workload)
        for base in [next_result() for _ in workloads]:
            bases[base["workload"]] = base
            if base["bad"]:
                sys.exit(f"{base}")
    for result in results_of(bases):
        results.append(result)
        if result["bad"]:
            print(f"{result['workload']}: {result.get('note')}: {'; '.join(result['bad'])}\n    python3 tests/benches/"
                  f"faults.py {OPTIONS.program} --seed {OPTIONS.seed} --only {result['number']}", flush=True)
    table(results)
    if OPTIONS.out:
        os.makedirs(OPTIONS.out, exist_ok=True)
        with open(f"{OPTIONS.out}/faults-{OPTIONS.seed}.json", "w") as file:
            json.dump(results, file)
    if OPTIONS.only is None:
        shutil.rmtree(WORK, ignore_errors=True)
    sys.exit(any(result["bad"] for result in results))


if __name__ == "__main__":
    main()
