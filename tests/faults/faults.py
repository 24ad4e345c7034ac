"""Puts faults in the way of CUDA, one at a time and for one process alone, and asks `doctor` each time.

usage: python3 faults.py CUDA_PITFALLS OUT.json [ATTEMPTS]

It needs a GPU, root (for mount namespaces and for another user) and a kernel with seccomp and Landlock. Nothing on the
machine is changed: mounts are in namespaces, filters and limits hold for one process, folders go at the end. What is
refused is really refused, by the kernel: no part of the program under test takes part in it.
"""

import ctypes
import glob
import json
import multiprocessing
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, CLONE_NEWNS = 38, 0x20000
MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 4, 32, 4096, 16384, 1 << 18
# Numbers of system calls, x86-64.
NR = {
    "poll": 7, "ioctl": 16, "dup": 32, "socket": 41, "bind": 49, "listen": 50, "uname": 63, "fcntl": 72, "unlink": 87,
    "gettid": 186, "get_mempolicy": 239, "eventfd2": 290, "pipe2": 293, "seccomp": 317, "clone3": 435,
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
}
EPERM, ENOSYS = 1, 38


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def refuse(call, error):
    """A seccomp filter that refuses one system call."""
    def fault():
        def bpf(code, jt, jf, k):
            return struct.pack("HBBI", code, jt, jf, k)
        program = b"".join([
            bpf(0x20, 0, 0, 0),  # load the number
            bpf(0x15, 0, 1, NR[call]),
            bpf(0x06, 0, 0, 0x00050000 | error),
            bpf(0x06, 0, 0, 0x7FFF0000),
        ])
        buffer = ctypes.create_string_buffer(program)
        head = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
        head = ctypes.create_string_buffer(head)
        check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        check(LIBC.syscall(NR["seccomp"], 1, 0, head), "seccomp")
    return fault


def landlock(allowed):
    """A Landlock rule set: everything below `/` may be read and run, and written only what is named."""
    READ, WRITE = 0b1101, 1 << 1  # execute, read a file, read a folder; write a file
    TRUNCATE, IOCTL = 1 << 14, 1 << 15
    handled = READ | WRITE | TRUNCATE | IOCTL
    def fault():
        attribute = ctypes.create_string_buffer(struct.pack("Q", handled))
        rules = LIBC.syscall(NR["landlock_create_ruleset"], attribute, 8, 0)
        if rules < 0:
            raise OSError(ctypes.get_errno(), "landlock")
        for path, rights in allowed(READ, WRITE | TRUNCATE | IOCTL):
            place = os.open(path, os.O_PATH)
            if not os.path.isdir(path):
                rights &= ~0b1001
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place))
            check(LIBC.syscall(NR["landlock_add_rule"], rules, 1, rule, 0), path)
        check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        check(LIBC.syscall(NR["landlock_restrict_self"], rules, 0), "restrict")
    return fault


def devices():
    return [path for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path)]


def may_write(*without):
    """Landlock: the files of CUDA may be written, but for these."""
    def allowed(read, write):
        yield "/", read
        for path in [*devices(), "/proc", "/dev/null", "/tmp", "/dev/shm"]:
            if path not in without:
                yield path, read | write
    return allowed


def cannot_read_proc(read, write):
    for path in os.listdir("/"):
        path = "/" + path
        if path != "/proc" and not os.path.islink(path):
            yield path, read
    for path in [*devices(), "/dev/null", "/tmp"]:
        yield path, read | write


def own_mounts():
    check(LIBC.unshare(CLONE_NEWNS), "unshare")
    check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private")


def mount(source, target, flags=MS_BIND):
    check(LIBC.mount(source and source.encode(), target.encode(), None, flags, None), f"mount on {target}")


def dev_without(*names, owner=None, mode=None, plain=()):
    """A /dev of its own, without some files, or with another owner or mode, or with plain files."""
    def fault():
        own_mounts()
        kept = {path: os.stat(path) for path in glob.glob("/dev/*") if not os.path.isdir(path)}
        check(LIBC.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, b"mode=755"), "tmpfs")
        for path, found in kept.items():
            name = os.path.basename(path)
            if name in names:
                continue
            target = "/mnt/" + name
            if name in plain:
                open(target, "w").close()
            else:
                os.mknod(target, found.st_mode, found.st_rdev)
            is_nvidia = name.startswith("nvidia")
            os.chmod(target, mode if is_nvidia and mode is not None else found.st_mode & 0o777)
            if is_nvidia and owner is not None:
                os.chown(target, *owner)
        os.mkdir("/mnt/shm", 0o1777)
        check(LIBC.mount(b"/mnt", b"/dev", None, MS_BIND, None), "bind /dev")
    return fault


def over(source, target):
    def fault():
        own_mounts()
        mount(source, target)
    return fault


def nodev():
    own_mounts()
    for path in devices():
        mount(path, path)
        check(LIBC.mount(None, path.encode(), None, MS_REMOUNT | MS_BIND | MS_NODEV, None), "nodev")


def as_user(user, then=None):
    def fault():
        if then:
            then()
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    return fault


def limit(what, soft):
    def fault():
        resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))
    return fault


def is_file(path, error=None, kind="file"):
    return lambda cause: cause["kind"] == kind and cause.get("path") == path and error in (None, cause.get("error"))


def is_call(name):
    return lambda cause: cause["kind"] == "system_call" and cause["call"] == name


def is_variable(name):
    return lambda cause: cause["kind"] == "environment" and cause["change"].get("variable") == name


def is_kind(kind, **fields):
    return lambda cause: cause["kind"] == kind and all(cause.get(name) == value for name, value in fields.items())


def is_change(kind):
    return lambda cause: cause["kind"] == "environment" and cause["change"]["kind"] == kind


def faults(scratch):
    """Name, what is done in the process before `doctor` starts, variables, and which cause must be named."""
    libcuda = os.path.realpath(find("libcuda.so.1"))
    nvml = os.path.realpath(find("libnvidia-ml.so.1"))
    stubs, compat = folder_of("stubs/libcuda.so"), folder_of("compat/libcuda.so.1")
    stub = os.path.join(scratch, "stubs")
    os.makedirs(stub, exist_ok=True)
    if stubs:
        shutil.copy(os.path.join(stubs, "libcuda.so"), os.path.join(stub, "libcuda.so.1"))
    empty = os.path.join(scratch, "empty")
    open(empty, "w").close()
    path = os.environ.get("LD_LIBRARY_PATH", "")
    first = os.path.basename(sorted(name for name in devices() if name[11:].isdigit())[0])
    gpu = "/dev/" + first
    # To root libcuda makes missing device files, and puts them in the place of plain ones.
    yield "uvm-missing", as_user(65534, dev_without("nvidia-uvm")), {}, is_file("/dev/nvidia-uvm", "ENOENT")
    yield "ctl-missing", as_user(65534, dev_without("nvidiactl")), {}, is_file("/dev/nvidiactl", "ENOENT")
    yield "gpu-missing", as_user(65534, dev_without(first)), {}, is_file(gpu, "ENOENT")
    yield "uvm-is-null", over("/dev/null", "/dev/nvidia-uvm"), {}, is_file("/dev/nvidia-uvm", kind="not_the_device")
    yield "uvm-is-a-file", as_user(65534, dev_without(plain=("nvidia-uvm",))), {}, is_file("/dev/nvidia-uvm", kind="not_the_device")
    yield "another-user", as_user(65534, dev_without(mode=0o660, owner=(0, 0))), {}, is_file("/dev/nvidiactl", "EACCES")
    yield "nodev", nodev, {}, is_file("/dev/nvidiactl", "EACCES")
    yield "landlock-uvm", landlock(may_write("/dev/nvidia-uvm")), {}, is_file("/dev/nvidia-uvm", "EACCES")
    yield "landlock-gpu", landlock(may_write(gpu)), {}, is_file(gpu, "EACCES")
    yield "landlock-comm", landlock(may_write("/proc")), {}, is_file("/proc/self/task/*/comm", "EACCES")
    yield "landlock-proc", landlock(cannot_read_proc), {}, is_file("/proc/self/task/*/comm", "EACCES")
    for call in ["eventfd2", "socket", "bind", "uname", "gettid", "dup"]:
        yield f"seccomp-{call}", refuse(call, EPERM), {}, is_call(call)
    yield "seccomp-pipe2-enosys", refuse("pipe2", ENOSYS), {}, is_call("pipe2")
    yield "seccomp-get_mempolicy-enosys", refuse("get_mempolicy", ENOSYS), {}, is_call("get_mempolicy")
    yield "seccomp-clone3", refuse("clone3", EPERM), {}, is_call("clone3")
    yield "mask-empty", None, {"CUDA_VISIBLE_DEVICES": ""}, is_variable("CUDA_VISIBLE_DEVICES")
    yield "mask-too-high", None, {"CUDA_VISIBLE_DEVICES": "64"}, is_variable("CUDA_VISIBLE_DEVICES")
    yield "mask-twice", None, {"CUDA_VISIBLE_DEVICES": "0,0"}, is_variable("CUDA_VISIBLE_DEVICES")
    yield "order-misspelt", None, {"CUDA_DEVICE_ORDER": "PCI_BUS"}, is_variable("CUDA_DEVICE_ORDER")
    yield "no-libcuda", over(empty, libcuda), {}, is_kind("no_library", library="driver")
    yield "no-nvml", over(empty, nvml), {}, is_kind("no_library", library="nvml")
    if stubs:
        yield "stub", None, {"LD_LIBRARY_PATH": f"{stub}:{path}"}, is_kind("stub")
    if compat:
        yield "older-compat", None, {"LD_LIBRARY_PATH": f"{compat}:{path}"}, is_kind("other_version")
    yield "few-files", limit(resource.RLIMIT_NOFILE, 16), {}, is_change("raised")
    yield "little-address-space", limit(resource.RLIMIT_AS, 4 << 30), {}, is_change("raised")
    yield "dead-mps", None, {"CUDA_MPS_PIPE_DIRECTORY": dead_mps(scratch)}, is_change("without_mps")


def find(library):
    loaded = ctypes.CDLL(library)
    maps = open("/proc/self/maps").read().split()
    stem = library.split(".so")[0]
    return next(word for word in maps if os.path.basename(word).startswith(stem + ".so"))


def folder_of(tail):
    found = sorted(glob.glob(f"/usr/local/cuda*/**/{tail}", recursive=True))
    return os.path.dirname(found[0]) if found else None


def dead_mps(scratch):
    """A folder whose control socket takes connections and answers none."""
    folder = os.path.join(scratch, "mps")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "control")
    if not os.path.exists(path):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        listener.listen(0)
        SOCKETS.append(listener)
    return folder


SOCKETS = []


def state():
    """What must be the same before and after."""
    query = "--query-gpu=uuid,memory.used,compute_mode,persistence_mode,mig.mode.current"
    gpus = subprocess.run(["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True).stdout
    files = sorted((path, oct(os.stat(path).st_mode), os.stat(path).st_rdev) for path in devices())
    return {"gpus": gpus.splitlines(), "device_files": files, "mounts": len(open("/proc/self/mounts").readlines())}


EVERYTHING = []
AT_ONCE = 4


def ask(job):
    """Asks `doctor` under one fault, and compares what it names with what was done."""
    program, place, attempt = job
    name, fault, variables, is_it = EVERYTHING[place]
    ran = subprocess.run(
        [program, "doctor", "--json", "--timeout", "20"], preexec_fn=fault, capture_output=True, text=True,
        env={**os.environ, **variables},
    )
    try:
        document = json.loads(ran.stdout)
    except ValueError:
        document = {"error": "no document"}
    found = document.get("diagnosis") or {"state": document.get("error"), "causes": [], "failures": []}
    sure = [cause for cause in found["causes"] if cause["sureness"] != "possible"]
    return {
        "fault": name, "attempt": attempt, "state": found["state"], "exit": ran.returncode,
        "is_found": found["state"] == "healthy" if is_it is None else any(map(is_it, sure)),
        "others": sum(1 for cause in sure if is_it is None or not is_it(cause)),
        "failures": found["failures"], "sure": sure,
        "possible": [cause for cause in found["causes"] if cause["sureness"] == "possible"],
        "stderr": ran.stderr[-600:],
    }


def main():
    program, out = sys.argv[1], sys.argv[2]
    attempts = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    scratch = tempfile.mkdtemp(prefix="faults-", dir="/tmp")
    os.chmod(scratch, 0o755)
    before = state()
    EVERYTHING.extend([("healthy", None, {}, None), *faults(scratch), ("healthy-again", None, {}, None)])
    jobs = [(program, place, attempt) for attempt in range(attempts) for place in range(len(EVERYTHING))]
    # Each job makes its fault in a process of its own, so several may run at once.
    with multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        rows = []
        for row in pool.imap(ask, jobs):
            rows.append(row)
            said = "found" if row["is_found"] else "MISSED"
            print(row["fault"], row["attempt"], said, row["state"], row["others"], "others", flush=True)
    shutil.rmtree(scratch)
    after = state()
    document = {
        "attempts": attempts, "faults": len(EVERYTHING) - 2, "rows": rows,
        "found": sum(row["is_found"] for row in rows), "asked": len(rows),
        "before": before, "after": after, "is_unchanged": before == after,
    }
    with open(out, "w") as file:
        json.dump(document, file, indent=1)
    print(document["found"], "of", document["asked"], "unchanged" if before == after else "CHANGED")


if __name__ == "__main__":
    main()
