"""Asks the libcudas of other drivers whether they start here, and what they read, open and leave behind.

usage: python3 libcudas.py CUDA_PITFALLS OUT.json PACKAGE=VERSION=FILE...

It needs root and a C compiler, and lists files if strace is installed. The directory of FILE has the other libraries
of that driver. As root, libcuda creates device files, so without a kernel driver each process gets a /dev of its own.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ATTEMPTS = 3
DRIVER = "/proc/driver/nvidia/version"

PRIVATE_DEV = """set -e
mount -t tmpfs tmpfs "$1"
for name in null zero full random urandom tty; do touch "$1/$name"; mount --bind "/dev/$name" "$1/$name"; done
ln -s /proc/self/fd "$1/fd"; mkdir "$1/shm"; mount -t tmpfs -o mode=1777 tmpfs "$1/shm"
mount --move "$1" /dev; shift; exec "$@"
"""

ASK = """
import ctypes, json, os, sys
if sys.argv[2] == "other":
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
known = set(os.listdir("/dev"))
entries = lambda name: sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in os.listdir("/proc/self/fd")
                              if os.path.lexists(f"/proc/self/fd/{fd}"))
before, number = entries("fd"), ctypes.c_int(-1)
try:
    cu = ctypes.CDLL(sys.argv[1])
except OSError as error:
    print(json.dumps({"not_loaded": str(error)}))
    sys.exit()
told = {"cuDriverGetVersion": [cu.cuDriverGetVersion(ctypes.byref(number)), number.value], "cuInit": cu.cuInit(0)}
told["threads"] = len(os.listdir("/proc/self/task"))
told["device_files"] = sorted(set(os.listdir("/dev")) - known)
after = entries("fd")
for one in before:
    after.remove(one)
told["left_open"] = after
told["cuDeviceGetCount"] = cu.cuDeviceGetCount(ctypes.byref(number))
told["cuInit again"] = cu.cuInit(0)
print(json.dumps(told), flush=True)
if not os.fork():
    print(json.dumps({"cuInit in a forked child": cu.cuInit(0)}), flush=True)
    os._exit(0)
os.wait()
"""

# Writes each variable that a library of NVIDIA asks for.
WATCH = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define WATCHED(function) \
  char *function(const char *name) { \
    static char *(*real)(const char *); \
    Dl_info from; char line[512]; \
    if (!real) real = dlsym(RTLD_NEXT, #function); \
    if (dladdr(__builtin_return_address(0), &from) && from.dli_fname && \
        (strstr(from.dli_fname, "/libcuda") || strstr(from.dli_fname, "/libnvidia"))) { \
      int length = snprintf(line, sizeof line, "read %s\n", name); \
      if (write(2, line, length) < 0) return 0; \
    } \
    return real(name); \
  }
WATCHED(getenv)
WATCHED(secure_getenv)
"""


def run(command, **settings):
    with tempfile.TemporaryDirectory() as dev:
        shell = ["unshare", "--mount", "--propagation", "private", "sh", "-c", PRIVATE_DEV, "sh", dev]
        shell = [] if os.path.exists(DRIVER) else shell
        return subprocess.run(shell + command, capture_output=True, errors="backslashreplace", timeout=120, **settings)


def files_named(log, library):
    """Returns the files of the system and of the driver that were named after the library was."""
    _, _, later = log.partition(library)
    paths = set(re.findall(r'"(/(?:dev|proc|sys|etc/nvidia|usr/share/nvidia|tmp/nvidia-mps)/[^"]*)"', later))
    paths = {re.sub(r"^/proc/(self|\d+)(/task/\d+)?", "/proc/self", path) for path in paths}
    paths = {re.sub(r"^/sys/bus/pci/devices/[^/]*/", "/sys/bus/pci/devices/*/", path) for path in paths}
    return sorted(path for path in paths if "/fd" not in path)


def note(library):
    """Returns the drivers and devices for which the library says that it is compatible; None if it says nothing."""
    with open(library, "rb") as file:
        found = re.search(rb'\{"format":1,"CUDA version"[^}]*\}', file.read())
    return found and json.loads(found[0])


def start(command, settings):
    """Returns what a process says about the library, and how it ends."""
    asked = run(command, **settings)
    told = {"exit": asked.returncode}
    for line in asked.stdout.splitlines():
        told.update(json.loads(line))
    return told


def ask(program, watcher, given):
    """Returns everything about one library."""
    package, version, library = given.split("=")
    with open(library, "rb") as file:
        told = {"package": package, "package_version": version, "file": os.path.basename(library),
                "sha256": hashlib.sha256(file.read()).hexdigest(), "bytes": os.path.getsize(library)}
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    told["functions"] = len(re.findall(r" cu[A-Z]\w*", symbols))
    told["forward_compatibility"] = note(library)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.symlink(library, os.path.join(folder, "libcuda.so.1"))
        for name in os.listdir(os.path.dirname(library)):
            if not name.startswith("libcuda."):
                os.symlink(os.path.join(os.path.dirname(library), name), os.path.join(folder, name))
        settings = {"env": {**os.environ, "LD_LIBRARY_PATH": folder}}
        python = [sys.executable, "-c", ASK, library]
        for user in ["root", "other"]:
            attempts = [start(python + [user], settings) for _ in range(ATTEMPTS)]
            told[f"as_{user}"] = attempts[0]
            if any(attempt != attempts[0] for attempt in attempts):
                told[f"as_{user}"] = {"attempts_differ": attempts}
        watched = run(["env", f"LD_PRELOAD={watcher}"] + python + ["root"], **settings)
        told["variables"] = sorted(set(re.findall(r"^read (\w+)$", watched.stderr, re.M | re.A)))
        told["files"] = None
        if shutil.which("strace"):
            log = os.path.join(folder, "log")
            run(["strace", "-f", "-s", "200", "-e", "trace=%file,connect", "-o", log] + python + ["root"], **settings)
            with open(log, errors="replace") as file:
                told["files"] = files_named(file.read(), library)
        doctor = run([program, "doctor", "--json"], **settings)
        told["doctor"] = {"exit": doctor.returncode, "diagnosis": json.loads(doctor.stdout or "{}").get("diagnosis")}
    return told


def main():
    program, out, given = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    driver = None
    if os.path.exists(DRIVER):
        with open(DRIVER) as file:
            driver = re.search(r"\d{3}\.\d+(\.\d+)?", file.read())[0]
    with tempfile.TemporaryDirectory() as folder:
        source, watcher = os.path.join(folder, "watch.c"), os.path.join(folder, "watch.so")
        with open(source, "w") as file:
            file.write(WATCH)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", watcher, source, "-ldl"], check=True)
        libraries = [ask(program, watcher, one) for one in given]
    document = {"driver": driver, "kernel": os.uname().release.split("-")[0], "attempts": ATTEMPTS, "libraries": libraries}
    with open(out, "w") as file:
        json.dump(document, file, indent=1, sort_keys=True)
        file.write("\n")


main()
