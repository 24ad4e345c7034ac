#!/usr/bin/env python3
"""run.py BINARY [--only PATTERN] [--verify] [--on cuda|sim|plain|all] [--jobs N] [--keep]

Builds the programs in cases/, runs each under `BINARY trace --forbid context --forbid cuinit` (root), and prints a table.
E: must end with 1 or 3.  C: control, must end with 0.  S: control of a kind that the contract may leave undecided, 0 wanted, 3 allowed.
plain: no policy, on the simulated machine: the text must show a cuInit, or name the process (its PID or command) under "Not seen" and not claim that
there was no CUDA call or no pitfall.  P: cannot be seen in principle or is no descendant: any code.  --verify runs them without the tracer first: an escape that does no CUDA is void.
Each run has a mount namespace of its own with /dev/nvidia* (copies of /dev/zero) and an empty /run/cuda-pitfalls, and is a subreaper:
what a case leaves behind is ended after it and never shared. The marks are in a System V segment (mark.h).
"""
import argparse, concurrent.futures, ctypes, fnmatch, json, os, pathlib, re, shutil, signal, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
PY = os.path.realpath(sys.executable)


def key_of(d):
    k = 5381
    for b in d.encode():
        k = (k * 33 + b) & 0xFFFFFFFF
    return (k & 0x7FFFFFFF) | 0x40000000


def cases():
    out = []
    for f in sorted((HERE / "cases").iterdir()):
        meta = {"what": "", "kind": "", "expect": "E", "as": "root", "on": "both", "wait": "2s", "late": "3", "timeout": "40", "build": "", "prep": "", "pre": ""}
        for line in f.read_text().splitlines():
            m = re.match(r"(?://|#): (\w+): (.*)", line)
            if not m:
                break
            meta[m[1]] = m[2]
        out.append((f.stem, f, meta))
    return out


def gcc(*a):
    r = subprocess.run(["gcc", "-O1", "-g0", "-w", "-I", str(HERE), *map(str, a)], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"gcc {a}: {r.stderr}")


def build(base, slots, todo):
    b = base / "bin"
    b.mkdir()
    jobs = [(b / "esc-worker", "worker.c", []), (b / "esc-worker-static", "worker.c", ["-static"]), (b / "esc-idle", "innocent.c", []), (b / "esc-idle-static", "innocent.c", ["-static"]),
            (b / "asroot", "asroot.c", []), (b / "audit.so", "audit.c", ["-shared", "-fPIC"]), (b / "rivalpre.so", "rivalpre.c", ["-shared", "-fPIC"]), (b / "rival.so", "rival.c", ["-shared", "-fPIC"]),
            (b / "asked", "asked.c", []), (b / "ask", "ask.c", []), (b / "loads", "loads.c", []), (b / "golike", "golike.c", ["-static"])]
    with concurrent.futures.ThreadPoolExecutor(2) as ex:
        fs = [ex.submit(gcc, *fl, "-o", o, HERE / s, "-ldl", "-lpthread") for o, s, fl in jobs]
        fs += [ex.submit(gcc, *m["build"].split(), "-o", b / n, f, "-ldl", "-lpthread") for n, f, m in todo if f.suffix == ".c"]
        [f.result() for f in fs]
    for d in slots:
        d.mkdir()
        for n in [o.name for o, _, _ in jobs]:
            shutil.copy(b / n, d / n)
        fake = d / "fake"
        fake.mkdir()
        for name, so in (("libcuda.so.1", "libcuda.so.1"), ("libhelper.so", "libhelper.so"), ("libpatched.so", "libpatched.so")):
            gcc("-shared", "-fPIC", f"-DKEY={key_of(str(d))}", f"-Wl,-soname,{so}", "-o", fake / name, HERE / "fakecuda.c", "-ldl")
        data = (fake / "libpatched.so").read_bytes()
        assert b"CUDA_INJECTION64_PATH" in data
        (fake / "libpatched.so").write_bytes(data.replace(b"CUDA_INJECTION64_PATH", b"ABCD_INJECTION64_PATH"))
        gcc("-o", d / "esc-linked", HERE / "linked.c", fake / "libcuda.so.1", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/fake", "-ldl")
        jail = d / "jail"
        for p in ("lib64", "lib/x86_64-linux-gnu", str(d / "fake")[1:], "proc", "old"):
            (jail / p).mkdir(parents=True, exist_ok=True)
        shutil.copy("/lib64/ld-linux-x86-64.so.2", jail / "lib64")
        for so in ("libc.so.6", "libdl.so.2", "libpthread.so.0"):
            shutil.copy("/lib/x86_64-linux-gnu/" + so, jail / "lib/x86_64-linux-gnu")
        shutil.copy(fake / "libcuda.so.1", jail / str(d / "fake")[1:])
        shutil.copy(b / "esc-worker", jail)
        shutil.copy(b / "esc-idle-static", jail)
        (d / "home").mkdir()
        os.chown(d / "home", 65534, 65534)


def descendants(me):
    kids = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                s = open(f"/proc/{p}/stat").read()
            except OSError:
                continue
            kids.setdefault(int(s.rsplit(")", 1)[1].split()[1]), []).append((int(p), s.rsplit(")", 1)[1].split()[0]))
    out, todo = [], [me]
    while todo:
        for k, st in kids.get(todo.pop(), []):
            out.append((k, st))
            todo.append(k)
    return out


def goes_on():
    """Whether a descendant is left: a subreaper without children has none, however fast they fork."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def own_dev(d):
    n = d / "dev"
    n.mkdir(exist_ok=True)
    sh = lambda c: subprocess.run(c, shell=True, check=True)
    sh("mount --make-rprivate / && mkdir -p /run/cuda-pitfalls && mount -t tmpfs -o mode=755 t /run/cuda-pitfalls")
    sh(f"mount -t tmpfs -o mode=755 t {n} && cd {n} && mkdir pts shm && mount --bind /dev/pts pts && mount --bind /dev/shm shm && ln -s pts/ptmx ptmx && ln -s /proc/self/fd fd && ln -s fd/0 stdin && ln -s fd/1 stdout && ln -s fd/2 stderr"
       " && for x in null:3 zero:5 full:7 random:8 urandom:9 nvidiactl:5 nvidia0:5 nvidia-uvm:5; do mknod -m 666 ${x%:*} c 1 ${x#*:}; done && mknod -m 666 tty c 5 0"
       f" && mount --move {n} /dev")


def one(name, mode, slot, binary, has_wait, log):
    d = pathlib.Path(slot)
    f, meta = next((f, m) for n, f, m in cases() if n == name)
    libc.prctl(36, 1, 0, 0, 0)
    if libc.unshare(0x20000):
        sys.exit("unshare failed: root is needed")
    own_dev(d)
    ident = libc.shmget(key_of(slot), 4096, 0o1666)
    at = libc.shmat(ident, None, 0)
    marks = (ctypes.c_int * 4).from_address(at)
    for i in range(4):
        marks[i] = 0
    cwd = pathlib.Path(tempfile.mkdtemp(dir=d / "home"))
    os.chmod(cwd, 0o755)
    nobody = meta["as"] == "nobody"
    if nobody:
        os.chown(cwd, 65534, 65534)
    env = {"PATH": f"{os.path.dirname(PY)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(d / "home"), "D": slot, "LANG": "C.UTF-8", "LD_LIBRARY_PATH": f"{slot}/fake"}
    if meta["prep"]:
        subprocess.run(meta["prep"], shell=True, env={k: v for k, v in env.items() if k != "LD_LIBRARY_PATH"}, check=True)
    pre = None
    if meta["pre"]:
        pre = subprocess.Popen(meta["pre"].format(D=slot).split())
        time.sleep(0.2)
    base = d.parent
    program = {".c": [str(base / "bin" / name), slot], ".sh": ["/bin/sh", str(base / "cases" / f.name), slot], ".py": [PY, str(base / "cases" / f.name), slot]}[f.suffix]
    command = program
    if mode != "bare":
        wait = ["--wait-children", meta["wait"]] if has_wait and meta["wait"] != "default" else []
        command = [binary, "trace", "--on", "sim:h200-x2" if mode in ("sim", "plain") else "cuda", "--out", "t", *wait, *([] if mode == "plain" else ["--forbid", "context", "--forbid", "cuinit"]), "--", *program]
    if nobody:
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
    began = time.monotonic()
    with open(log, "wb") as err, open(log + ".out", "wb") as out:
        p = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            rc = p.wait(timeout=float(meta["timeout"]))
        except subprocess.TimeoutExpired:
            rc = "timeout"
            p.kill()
    took = time.monotonic() - began
    early = marks[2] or marks[0]
    if not os.path.exists("/proc/self"):
        libc.umount2(b"/proc", 2)
    until = time.monotonic() + float(meta["late"])
    while not (marks[0] or marks[2]) and meta["expect"] == "E" and time.monotonic() < until and goes_on():
        time.sleep(0.02)
    time.sleep(0.02)
    after = [k for k, s in descendants(os.getpid()) if s != "Z" and (not pre or k != pre.pid)] if goes_on() else []
    until = time.monotonic() + 4
    while goes_on() and time.monotonic() < until:
        for k, _ in descendants(os.getpid()):
            try:
                os.kill(k, signal.SIGKILL)
            except OSError:
                pass
    text = open(log, errors="replace").read()
    pid = marks[3]
    by_cmd = bool(re.search(r"esc-(worker|script|swap|linked)", text))
    by_pid = bool(pid and re.search(rf"\b{pid}\b", text))
    print(json.dumps({"rc": rc, "took": round(took, 2), "lib": marks[0], "prog": marks[2], "late": not early and bool(marks[0] or marks[2]), "left": len(after),
                      "claim": bool(re.search("made no CUDA call|no pitfall found (?!in what)", text)), "event": bool(re.search("cuInit with|was read as|context,", text)), "unseen": "Not seen" in text, "named": "+".join(w for w, b in (("pid", by_pid), ("cmd", by_cmd)) if b) or "-"}))
    libc.shmdt(ctypes.c_void_p(at))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("--only", default="*")
    a.add_argument("--on", default="all", help="cuda, sim, plain (sim without a policy) or all")
    a.add_argument("--verify", action="store_true")
    a.add_argument("--keep", action="store_true")
    a.add_argument("--jobs", type=int, default=2)
    o = a.parse_args()
    began = time.monotonic()
    todo = [c for c in cases() if any(fnmatch.fnmatch(c[0], x) for x in o.only.split(","))]
    base = pathlib.Path(tempfile.mkdtemp(prefix="esc-", dir="/tmp"))
    os.chmod(base, 0o755)
    os.umask(0o022)
    shutil.copy(o.binary, base / "cuda-pitfalls")
    shutil.copytree(HERE / "cases", base / "cases")
    os.chmod(base / "cuda-pitfalls", 0o755)
    slots = [base / f"s{i}" for i in range(o.jobs)]
    build(base, slots, todo)
    helptext = subprocess.run([base / "cuda-pitfalls", "trace", "--help"], capture_output=True, text=True).stdout
    has_wait = "--wait-children" in helptext
    logs = HERE / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    print(f"# {o.binary}  {subprocess.run([base / 'cuda-pitfalls', '--version'], capture_output=True, text=True).stdout.strip()}  --wait-children: {'yes' if has_wait else 'NO SUCH OPTION'}")
    work = []
    for n, f, m in todo:
        modes = ["cuda"] if m["on"] == "cuda" else ["cuda", "sim"] + (["plain"] if m["expect"] == "E" else [])
        if o.on != "all":
            modes = [x for x in modes if x == o.on]
        work += [(n, m, x) for x in (["bare"] if o.verify else []) + modes]
    free = list(range(o.jobs))
    work.sort(key=lambda w: 0 if w[1]["wait"] == "default" else 1)

    def go(w):
        n, m, mode = w
        s = free.pop()
        try:
            r = subprocess.run([sys.executable, __file__, "--one", n, mode, str(slots[s]), str(base / "cuda-pitfalls"), "1" if has_wait else "", str(logs / f"{n}.{mode}")],
                               capture_output=True, text=True, timeout=120)
            try:
                return w, json.loads(r.stdout.splitlines()[-1])
            except (ValueError, IndexError):
                return w, {"rc": "broken: " + (r.stderr.strip().splitlines() or ["?"])[-1], "took": 0, "lib": 0, "prog": 0, "late": False, "left": 0, "named": "-", "claim": False, "event": False, "unseen": False}
        except subprocess.TimeoutExpired:
            return w, {"rc": "hangs", "took": 120, "lib": 0, "prog": 0, "late": False, "left": 0, "named": "-", "claim": False, "event": False, "unseen": False}
        finally:
            free.append(s)

    with concurrent.futures.ThreadPoolExecutor(o.jobs) as ex:
        done = {(w[0], w[2]): r for w, r in ex.map(go, work)}
    total = {}
    print(f"{'name':34}{'on':6}{'kind':12}{'expected':10}{'got':>8}  {'verdict':10}{'work':8}{'named':10}{'sec':>6}")
    for n, m, mode in sorted(work, key=lambda w: (w[0], w[2])):
        r = done[n, mode]
        e, rc, worked = m["expect"], r["rc"], r["lib"] or r["prog"]
        if mode == "bare":
            good = (rc == 0 or n.startswith("54")) and bool(worked) == (e in "EP")
            verdict = "does" if good and worked else "innocent" if good else "VOID"
            want = "0"
        elif mode == "plain":
            want, e = "said", "plain"
            verdict = "no work" if not worked else "ok" if r["event"] or r["unseen"] and not r["claim"] and r["named"] != "-" else "unnamed" if r["unseen"] and not r["claim"] else "CLAIMS"
        elif e == "E":
            want = "1|3"
            verdict = "ok" if rc in (1, 3) else "no work" if not worked else "ESCAPES" if rc == 0 else f"odd"
        elif e == "C":
            want, verdict = "0", "ok" if rc == 0 else "USELESS"
        elif e == "S":
            want, verdict = "0 (3)", "ok" if rc == 0 else "undecided" if rc == 3 else "USELESS"
        else:
            want, verdict = "any", "passes" if rc == 0 else "seen"
        if mode != "bare":
            total.setdefault(e, {}).setdefault(verdict, 0)
            total[e][verdict] += 1
        did = ("late" if r["late"] else "yes") if worked else "-"
        print(f"{n:34}{mode:6}{m['kind'] or 'control':12}{want:10}{rc!s:>8}  {verdict:10}{did:8}{r['named']:10}{r['took']:6.2f}" + (f"  left {r['left']}" if r["left"] else ""))
    print()
    for e, label in (("E", "escapes"), ("C", "controls"), ("S", "controls that may be undecided"), ("P", "in principle"), ("plain", "without a policy")):
        if e in total:
            print(f"{label}: " + ", ".join(f"{v} {k}" for k, v in sorted(total[e].items())))
    print(f"seconds: {time.monotonic() - began:.0f}")
    for s in slots:
        libc.shmctl(libc.shmget(key_of(str(s)), 4096, 0o666), 0, None)
    if not o.keep:
        shutil.rmtree(base, ignore_errors=True)
    bad = sum(v for e, t in total.items() for k, v in t.items() if k in ("CLAIMS", "ESCAPES", "USELESS", "odd"))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:8])
    else:
        main()
