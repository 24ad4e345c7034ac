"""Starts a process of each kind on the simulated machine, looks at them with `who`, and prints everything as JSON.

usage: zoo.py PROGRAM; a process of its own is `zoo.py PROGRAM ROLE`
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROLES = ["context", "two", "initialized", "nvml", "forked", "left", "stopped", "masked", "other", "hostile", "orphan", "unrelated"]
SPACE = ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork", "--kill-child"]
OTHER = "/usr/bin/python3"
HOSTILE = "\x1b]0;pwned\x07\n\x1b[2J| `id` <script>"


def play(role):
    # In a PID namespace of its own it still has the files of `/proc` of the host.
    says = {"role": role, "pid": int(os.readlink("/proc/self"))}
    if role == "nvml":
        assert ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2() == 0
    elif role != "unrelated":
        cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        says["init"] = [time.time()]
        assert cuda.cuInit(0) == 0
        says["init"].append(time.time())
        if role not in ("initialized", "orphan"):
            time.sleep(0.2)
            says["context"] = [time.time()]
            for gpu in range(2 if role == "two" else 1):
                assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu) == 0
                says["context"].append(time.time())
            assert cuda.cuCtxSetCurrent(context) == 0
            assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
    if role in ("masked", "other"):
        os.environ["CUDA_VISIBLE_DEVICES"] = "1"
    if role == "hostile":
        ctypes.CDLL(None).prctl(15, HOSTILE.encode(), 0, 0, 0)
    if role in ("forked", "left"):
        says["child"] = os.fork()
        if says["child"] == 0:
            time.sleep(600)
    print(json.dumps(says), flush=True)
    time.sleep(600)


def watch(pids, seen, end):
    while not end.is_set():
        for pid in pids:
            status = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace")
            seen.update(line for line in status.splitlines() if line.startswith("TracerPid:"))
        time.sleep(0.001)


def look(program, before, arguments):
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    ran = subprocess.run([*before, program, "who", *arguments], capture_output=True, env=environment)
    return {"code": ran.returncode, "stdout": ran.stdout.decode(), "stderr": ran.stderr.decode()}


def watch_holders(program):
    words = [program, "who", "--watch", "1", "--json"]
    watching = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = watching.stdout.readline() + watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    stdout, stderr = watching.communicate()
    return {"code": watching.returncode, "stdout": (first + stdout).decode(), "stderr": stderr.decode()}


def main():
    program, folder = sys.argv[1], sys.argv[2]
    children = {}
    has_spaces = subprocess.run([*SPACE, "true"], stderr=subprocess.DEVNULL).returncode == 0
    for role in ROLES:
        environment = {**os.environ, "A_SECRET": "hush", "SLURM_JOB_ID": "job815x"}
        if role in ("masked", "other"):
            environment["CUDA_VISIBLE_DEVICES"] = "0"
        python = OTHER if role == "other" and os.path.exists(OTHER) else sys.executable
        words = [python, __file__, program, role]
        if role == "hostile":
            words.append(HOSTILE)
        if role == "orphan" and has_spaces:
            words = ["setsid", *SPACE, "sh", "-c", "setsid sh -c '\"$@\" &' sh \"$@\"; sleep 600", "sh", *words]
        children[role] = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
    says = {role: json.loads(child.stdout.readline()) for role, child in children.items()}
    children["stopped"].send_signal(signal.SIGSTOP)
    children["left"].kill()
    children["left"].wait()
    time.sleep(1.1)  # The contexts become older than the limit of `idle>1s`.
    pids = {role: said["pid"] for role, said in says.items() if role != "left"}
    seen, end = set(), threading.Event()
    watcher = threading.Thread(target=watch, args=(pids.values(), seen, end))
    watcher.start()
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    # Some containers may not mount anything.
    hidden = "mount -t proc -o hidepid=2,gid=65533 proc /proc || exit 77; exec setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace \"$@\""
    apart = "unshare --mount true || exit 77; exec unshare --mount sh -c \"$0\" sh \"$@\""
    without_ptrace = ["sh", "-c", apart, hidden] if os.getuid() == 0 else []
    looks = {
        "json": ([], ["--json"]),
        "text": ([], []),
        "redacted": ([], ["--redact", "--json"]),
        "redacted text": ([], ["--redact", "--stacks"]),
        "holders": ([], ["--forbid", "holders", "--json"]),
        "leftover": ([], ["--forbid", "leftover>64MiB", "--json"]),
        "orphans": ([], ["--forbid", "orphans", "--json"]),
        "idle": ([], ["--forbid", "idle>1s", "--json"]),
        "masked": ([], [str(pids["masked"]), "--json"]),
        "other": ([], [str(pids["other"]), "--json"]),
        "hostile": ([], [str(pids["hostile"]), "--stacks"]),
        "unrelated": ([], [str(pids["unrelated"])]),
        "metrics": ([], ["--prometheus", folder + "/who.prom", "--json"]),
        "outside": (["env", "-u", "LD_LIBRARY_PATH", "-u", "LD_PRELOAD"], ["--on", "sim", "--json", str(pids["two"])]),
        "nobody": (nobody, ["--forbid", "holders", "--json"]),
        "without ptrace": (without_ptrace, ["--forbid", "holders", "--json"]),
    }
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda words: look(program, *words), looks.values())
        outputs = dict(zip(looks, found))
    outputs["watched"] = watch_holders(program)
    end.set()
    watcher.join()
    alive = [role for role, pid in pids.items() if os.path.exists(f"/proc/{pid}/exe")]
    os.kill(says["left"]["child"], signal.SIGKILL)
    os.kill(says["forked"]["child"], signal.SIGKILL)
    for child in children.values():
        child.kill()
        child.wait()
    outputs["empty"] = look(program, [], ["--forbid", "holders,leftover>64MiB,orphans,idle>1s", "--json"])
    print(json.dumps({"says": says, "outputs": outputs, "tracers": sorted(seen), "alive": alive, "has_spaces": has_spaces}))


if len(sys.argv) == 3 and sys.argv[2] in ROLES or len(sys.argv) == 4:
    play(sys.argv[2])
else:
    main()
