#!/usr/bin/env python3
"""Trial of `cuda-pitfalls who` on a machine with GPUs: holders.py PROGRAM FOLDER [SECTION...]

Starts programs of many kinds, reads `who --json` beside them and compares. Writes FOLDER/trial.ndjson (everything) and
FOLDER/trial.txt (the summary, also printed). HOLDERS_SECONDS: limit for the whole (default 285).
"""
import collections, concurrent.futures, contextlib, json, os, re, shutil, signal, statistics, subprocess, sys, tempfile, time, traceback

WHO, OUT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ONLY = sys.argv[3:]
os.makedirs(OUT, exist_ok=True)
T0 = time.time()
END = T0 + float(os.environ.get("HOLDERS_SECONDS", "285"))
MARK = "holders-%d-%d" % (os.getpid(), int(T0))
DIR = tempfile.mkdtemp(prefix="holders-")
os.chmod(DIR, 0o777)
OPEN_WHO = shutil.copy(WHO, DIR + "/cuda-pitfalls")   # where another user can run it
os.chmod(OPEN_WHO, 0o755)
MIB = 1 << 20
NOBODY = 65534
MANY = int(os.environ.get("HOLDERS_MANY", "100"))
LOG = open(os.path.join(OUT, "trial.ndjson"), "w")
HOLDING = {"context", "mps_client", "mps_server", "listed", "graphics", "initialized", "initialized_or_nvml",
           "inherited", "checkpointed", "descriptor_only", "ended", "invisible"}
ANY = HOLDING | {"unrelated", "nvml_only"}
PLAIN = {"unrelated"}
C, I, N, INH = {"context"}, {"initialized"}, {"nvml_only"}, {"inherited"}

COUNT = collections.Counter()
FAILS = []
SINCE = {}       # (pid, start of the call, "cuda" or "context") -> record of the first reading
ACCOUNT = []     # one per GPU and reading
PROGRAMS = set() # labels of started programs
NOTES = []


def log(event, /, **k):
    LOG.write(json.dumps({"t": round(time.time() - T0, 2), "event": event, **k}, default=str) + "\n")
    LOG.flush()


def fail(failure, where, /, **k):
    COUNT["FAIL " + failure] += 1
    FAILS.append((failure, where, k))
    log("fail", **{**k, "failure": failure, "tag": where})


def note(text):
    NOTES.append(text)
    log("note", text=text)


# ---------------------------------------------------------------- what the programs share
PRE = r'''
import ctypes,os,sys,time,signal,json,threading
FD=os.open(os.environ['HOLDERS_REPORT'],os.O_WRONLY|os.O_APPEND|os.O_CREAT,0o666)
def boot(): return time.clock_gettime(time.CLOCK_BOOTTIME)
def rep(what,**k):
    k.update(what=what,pid=os.getpid()); os.write(FD,(json.dumps(k)+'\n').encode())
def role(name): rep('role',name=name)
def ready(): rep('ready')
def stay():
    while True: time.sleep(600)
class span:
    def __init__(s,*what,exact=False): s.what=what; s.exact=exact; s.rc=0
    def __enter__(s): s.b0=boot(); s.w0=time.time(); return s
    def __exit__(s,t,v,b):
        w1=time.time(); b1=boot()
        if t: s.rc=repr(v)
        for what in s.what: rep(what,rc=s.rc,b0=s.b0,b1=b1,w0=s.w0,w1=w1,exact=s.exact)
_cu=None
def cu():
    global _cu
    if _cu is None: _cu=ctypes.CDLL('libcuda.so.1')
    return _cu
def init():
    c=cu()
    with span('init',exact=True) as s: s.rc=c.cuInit(0)
    return s.rc
def ctx(i=0):
    d=ctypes.c_int(); cu().cuDeviceGet(ctypes.byref(d),i); c=ctypes.c_void_p()
    with span('ctx',exact=True) as s: s.rc=cu().cuDevicePrimaryCtxRetain(ctypes.byref(c),d)
    cu().cuCtxSetCurrent(c); return d,c
def alloc(n):
    p=ctypes.c_void_p(); r=cu().cuMemAlloc_v2(ctypes.byref(p),ctypes.c_size_t(n)); rep('alloc',rc=r,n=n); return p
def nvml():
    n=ctypes.CDLL('libnvidia-ml.so.1')
    with span('nvml',exact=True) as s: s.rc=n.nvmlInit_v2()
    return n
def gate():
    rep('gated')
    while not os.path.exists(os.environ['HOLDERS_GATE']): time.sleep(.02)
def send_fd(fd,path):
    import socket,array
    s=socket.socket(socket.AF_UNIX); s.connect(path)
    s.sendmsg([b'x'],[(socket.SOL_SOCKET,socket.SCM_RIGHTS,array.array('i',[fd]))]); s.close()
def recv_fd(path):
    import socket,array
    s=socket.socket(socket.AF_UNIX); s.bind(path); s.listen(1); rep('listening'); c,_=s.accept()
    m,a,_,_=c.recvmsg(1,100); f=array.array('i'); f.frombytes(a[0][2][:4]); return f[0]
class Loc(ctypes.Structure): _fields_=[('type',ctypes.c_int),('id',ctypes.c_int)]
class Prop(ctypes.Structure): _fields_=[('type',ctypes.c_int),('handle',ctypes.c_int),('loc',Loc),('win',ctypes.c_void_p),('flags',ctypes.c_ubyte*8)]
def vmm_fd(n):
    pr=Prop(); pr.type=1; pr.handle=1; pr.loc.type=1; pr.loc.id=0; h=ctypes.c_ulonglong(); fd=ctypes.c_int(-1)
    rep('vmm',create=cu().cuMemCreate(ctypes.byref(h),ctypes.c_size_t(n),ctypes.byref(pr),ctypes.c_ulonglong(0)),
        export=cu().cuMemExportToShareableHandle(ctypes.byref(fd),h,1,ctypes.c_ulonglong(0)))
    return fd.value
PTX=b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin()
{
 .reg .u64 %a, %b;
 .reg .pred %p;
 mov.u64 %a, %clock64;
L:
 mov.u64 %b, %clock64;
 sub.u64 %b, %b, %a;
 setp.lt.u64 %p, %b, 200000;
 @%p bra L;
 ret;
}
\0"""
def spin(pause):
    m=ctypes.c_void_p(); f=ctypes.c_void_p(); z=ctypes.c_void_p()
    r=cu().cuModuleLoadData(ctypes.byref(m),PTX); g=cu().cuModuleGetFunction(ctypes.byref(f),m,b'spin') if r==0 else -1
    rep('module',rc=r,function=g); ready()
    if r or g: stay()
    while True:
        cu().cuLaunchKernel(f,1,1,1,1,1,1,0,z,None,None); cu().cuCtxSynchronize()
        if pause: time.sleep(pause)
'''
open(DIR + "/holders.py", "w").write(PRE)


# ---------------------------------------------------------------- starting and stopping
def children(pid):
    below, out, todo = collections.defaultdict(list), [], [pid]
    for d in os.listdir("/proc"):
        if d.isdigit():
            with contextlib.suppress(OSError, ValueError):
                s = open(f"/proc/{d}/stat").read()
                below[int(s[s.rindex(")") + 2:].split()[1])].append(int(d))
    while todo:
        for c in below[todo.pop()]:
            out.append(c)
            todo.append(c)
    return out


def state(pid):
    try:
        s = open(f"/proc/{pid}/stat").read()
        return s[s.rindex(")") + 2]
    except OSError:
        return None


def kill(pid, sig=signal.SIGKILL):
    with contextlib.suppress(OSError):
        os.kill(pid, sig)


RUNS = []


class Run:
    serial = 0

    def __init__(self, label, code, env=None, wrap=(), user=None, argv=None):
        Run.serial += 1
        self.label, self.inner = label, None
        name = "".join(c if c.isalnum() else "_" for c in label)
        self.file = f"{DIR}/p{Run.serial:03d}_{name}.py"
        self.report = f"{DIR}/r{Run.serial:03d}"
        self.gate = f"{DIR}/gate{Run.serial:03d}"
        open(self.file, "w").write("from holders import *\n" + (code or ""))
        open(self.report, "w").close()
        os.chmod(self.report, 0o666)
        full = {**os.environ, "HOLDERS": MARK, "HOLDERS_REPORT": self.report, "HOLDERS_GATE": self.gate, "PYTHONPATH": DIR,
                "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **(env or {})}
        if os.environ.get("PYTHONPATH"):
            full["PYTHONPATH"] += ":" + os.environ["PYTHONPATH"]
        more = {"user": user, "group": user, "extra_groups": []} if user else {}
        self.log = open(f"{DIR}/l{Run.serial:03d}", "w+")
        argv = [*wrap, *(argv or [sys.executable, self.file])]
        self.p = subprocess.Popen(argv, env=full, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=DIR, **more)
        self.nested = "unshare" in wrap
        PROGRAMS.add(label)
        RUNS.append(self)

    def lines(self):
        out = []
        for l in open(self.report):
            with contextlib.suppress(ValueError):
                d = json.loads(l)
                if self.nested and d["pid"] == 1 and self.real():
                    d["pid"] = self.real()
                out.append(d)
        return out

    def real(self):
        if not self.inner:
            c = children(self.p.pid)
            self.inner = c[0] if c else None
        return self.inner

    def wait(self, n=1, what="ready", timeout=20):
        end = min(time.time() + timeout, END)
        while time.time() < end:
            if sum(d["what"] == what for d in self.lines()) >= n:
                return self
            if self.p.poll() is not None and what != "ready":
                break
            time.sleep(.01)
        self.log.flush()
        said = open(self.log.name).read()[-600:]
        raise RuntimeError(f"{self.label}: no {n} x {what}; report {self.lines()[-4:]}; said {said}")

    def pid(self, name=None):
        if name is None:
            return self.real() if self.nested else self.p.pid
        return next(d["pid"] for d in self.lines() if d["what"] == "role" and d["name"] == name)

    def pids(self, prefix):
        return [d["pid"] for d in self.lines() if d["what"] == "role" and d["name"].startswith(prefix)]

    def go(self):
        open(self.gate, "w").close()

    def stop(self):
        below, said = children(self.p.pid), {d["pid"] for d in self.lines() if d["pid"] > 1}
        if self.p.poll() is None:
            kill(self.p.pid)
        ours = {self.p.pid, *below, *said}
        for pid in ours - {self.p.pid}:
            if pid in below or is_ours(pid):
                kill(pid)
        with contextlib.suppress(Exception):
            self.p.wait(5)
        for pid in ours:
            EXPECT.pop(pid, None)


def is_ours(pid):
    try:
        return f"HOLDERS={MARK}".encode() in open(f"/proc/{pid}/environ", "rb").read().split(b"\0")
    except OSError:
        return False


def ours_alive():
    return [int(d) for d in os.listdir("/proc") if d.isdigit() and int(d) != os.getpid() and is_ours(int(d))]


def start(label, code, n=1, timeout=20, **k):
    r = Run(label, code, **k)
    try:
        return r.wait(n, timeout=timeout)
    except BaseException:
        r.stop()
        raise


# ---------------------------------------------------------------- the witness: NVML in a process of its own
WITNESS = r'''
import ctypes,json,sys
nv=ctypes.CDLL('libnvidia-ml.so.1'); rc=nv.nvmlInit_v2()
class Mem2(ctypes.Structure): _fields_=[('version',ctypes.c_uint),('total',ctypes.c_ulonglong),('reserved',ctypes.c_ulonglong),('free',ctypes.c_ulonglong),('used',ctypes.c_ulonglong)]
class Proc(ctypes.Structure): _fields_=[('pid',ctypes.c_uint),('used',ctypes.c_ulonglong),('gi',ctypes.c_uint),('ci',ctypes.c_uint)]
n=ctypes.c_uint(); nv.nvmlDeviceGetCount_v2(ctypes.byref(n)); devs=[]
for i in range(n.value):
    h=ctypes.c_void_p(); nv.nvmlDeviceGetHandleByIndex_v2(i,ctypes.byref(h)); devs.append(h)
for line in sys.stdin:
    out=[]
    for h in devs:
        m=Mem2(); m.version=ctypes.sizeof(Mem2)|(2<<24); r=nv.nvmlDeviceGetMemoryInfo_v2(h,ctypes.byref(m)); ps={}
        for f in ('Compute','Graphics'):
            c=ctypes.c_uint(512); a=(Proc*512)()
            q=getattr(nv,'nvmlDeviceGet%sRunningProcesses_v3'%f)(h,ctypes.byref(c),a)
            if q==0: ps.update({a[i].pid:a[i].used for i in range(c.value)})
        out.append({'rc':[rc,r],'used':m.used,'list':ps})
    print(json.dumps(out),flush=True)
'''


class Witness:
    def __init__(self):
        self.p = None

    def begin(self):
        if self.p is None:
            self.p = subprocess.Popen([sys.executable, "-c", WITNESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "HOLDERS": MARK})
            self.read()
            expect(self.p.pid, "witness", N)

    def end(self):
        if self.p is not None:
            EXPECT.pop(self.p.pid, None)
            self.p.kill()
            self.p.wait()
            self.p = None

    def read(self):
        if self.p is None:
            return []
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        g = json.loads(self.p.stdout.readline())
        for x in g:
            x["list"] = {int(p): u for p, u in x["list"].items()}
        return g


EXPECT, FOREIGN, UNOWNED, FULL = {}, set(), {}, {}
W = Witness()
BASE_UNSEEN, NGPU = [], 1


def settle(limit=2.5):
    """Waits until NVML lists no dead process of ours and `used` stands still."""
    end, last = time.time() + limit, None
    while time.time() < end:
        now = W.read()
        dead = [p for g in now for p in g["list"] if state(p) in (None, "Z") and p not in EXPECT]
        if not dead and now == last:
            return
        last = now
        time.sleep(.1)


def expect(pid, label, kinds, conds=(), must=None, run=None, contexts=None, which=0, never=(), loose=False, gpus=None):
    """must: is to be listed (default: if it holds something). which: the context that is the oldest living one."""
    kinds = set(kinds)
    must = bool(kinds & HOLDING) if must is None else must
    EXPECT[pid] = dict(label=label, kinds=kinds, conds=set(conds), never=set(never), must=must, run=run, contexts=contexts, which=which, loose=loose, gpus=gpus)


def distance(value, line):
    d = value - line["w0"] * 1000
    if not line["exact"]:
        d = 0 if line["w0"] * 1000 - 10 <= value <= line["w1"] * 1000 else (d if d < 0 else value - line["w1"] * 1000)
    return round(d, 1)


def note_since(holder, e):
    r, pid = e["run"], holder["pid"]
    if r is None:
        return
    lines = [d for d in r.lines() if d["pid"] == pid and d.get("rc") == 0]
    for name, field, what, which in (("cuda", "cuda_since_unix_ms", "init", 0), ("context", "context_since_unix_ms", "ctx", e["which"])):
        said = [d for d in lines if d["what"] == what]
        if which is None:
            if holder.get(field) is not None:
                fail("since", e["label"], pid=pid, what=name, says=holder[field], why="there is no living context")
            continue
        if not said:
            continue
        line, value = said[which], holder.get(field)
        key = (pid, line["b0"], name)
        if key in SINCE:
            continue
        rec = dict(label=e["label"], pid=pid, what=name, exact=line["exact"], value=value, b0=line["b0"], b1=line["b1"], w0=line["w0"], took_ms=round((line["w1"] - line["w0"]) * 1000, 1))
        rec["diff_ms"] = None if value is None else distance(value, line)
        SINCE[key] = rec
        log("since", **rec, threads=threads(pid))


def threads(pid):
    """Driver threads with their start in seconds of CLOCK_BOOTTIME."""
    out, hz = [], os.sysconf("SC_CLK_TCK")
    with contextlib.suppress(OSError):
        for t in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                s = open(f"/proc/{pid}/task/{t}/stat").read()
                name = s[s.index("(") + 1:s.rindex(")")]
                if name.startswith("cuda"):
                    out.append((name, int(s[s.rindex(")") + 2:].split()[19]) / hz))
    return out


def who(*args, user=None, wrap=(), timeout=25):
    more = {"user": user, "group": user, "extra_groups": []} if user else {}
    t = time.time()
    try:
        p = subprocess.run([*wrap, OPEN_WHO if user else WHO, "who", *args], capture_output=True, text=True, timeout=timeout, cwd="/", env={**os.environ, "COLUMNS": "80"}, **more)
        rc, out, err = p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired as e:
        rc, out, err = "timeout", str(e.stdout or ""), str(e.stderr or "")
    COUNT["runs of who"] += 1
    if "panicked" in err or (isinstance(rc, int) and rc < 0) or rc == "timeout":
        fail("crash", " ".join(args), rc=rc, err=err[-800:])
    return rc, out, err, time.time() - t


def reading(tag, user=None, volatile=False, compare=True):
    """One `who --json` between two readings of the witness, compared with what is expected."""
    before = W.read()
    rc, out, err, wall = who("--json", user=user)
    after = W.read()
    COUNT["readings"] += 1
    try:
        doc = json.loads(out)
    except ValueError:
        fail("no JSON", tag, rc=rc, out=out[:300], err=err[-500:])
        return None
    stable = before == after and not volatile
    holders = {h["pid"]: h for h in doc["holders"]}
    log("reading", tag=tag, user=user, rc=rc, wall=round(wall, 3), stable=stable, unseen=doc["unseen"], gpus=doc["gpus"], witness=after, err=err[-300:],
        holders=[{k: h.get(k) for k in ("pid", "kind", "conditions", "memory", "contexts", "cuda_since_unix_ms", "context_since_unix_ms", "opened_gpus", "user", "place")} for h in doc["holders"]],
        expected={p: {**{k: sorted(map(str, v)) if isinstance(v, set) else v for k, v in e.items() if k != "run"}} for p, e in EXPECT.items()})
    if tag not in FULL and sum(FULL.values()) < 8 * MIB:
        FULL[tag] = len(out)
        log("document", tag=tag, document=doc)
    if rc != 0:
        fail("exit code", tag, rc=rc, wanted=[0], err=err[-300:])
    if not compare:
        return doc
    for pid, e in list(EXPECT.items()):
        h, label = holders.get(pid), f"{tag}: {e['label']}"
        kind = h["kind"] if h else None
        if e["must"]:
            COUNT["must be listed"] += 1
            if kind in (None, "unrelated"):
                fail("missed", label, pid=pid, kind=kind, wanted=sorted(e["kinds"]), state=state(pid), threads=threads(pid))
                continue
        elif not e["kinds"] & HOLDING:
            COUNT["must not hold"] += 1
            if kind in HOLDING:
                fail("invented", label, pid=pid, kind=kind)
                continue
        if h is None:
            continue
        if kind not in e["kinds"]:
            fail("kind", label, pid=pid, kind=kind, wanted=sorted(e["kinds"]), threads=threads(pid))
        have = {c["kind"] for c in h["conditions"]}
        if e["conds"] - have or e["never"] & have:
            fail("condition", label, pid=pid, have=sorted(have), wanted=sorted(e["conds"]), never=sorted(e["never"]), parent=(h.get("process") or {}).get("parent"))
        if e["contexts"] is not None and h.get("contexts") != e["contexts"]:
            fail("contexts", label, pid=pid, says=h.get("contexts"), wanted=e["contexts"])
        if e["gpus"] is not None and stable and sorted(m["gpu"] for m in h["memory"]) != e["gpus"]:
            fail("GPUs", label, pid=pid, says=h["memory"], wanted=e["gpus"])
        note_since(h, e)
    for pid, h in holders.items():
        if pid in EXPECT or pid in FOREIGN:
            continue
        COUNT["not expected"] += 1
        if h["kind"] in HOLDING and not volatile:
            fail("invented", tag, pid=pid, kind=h["kind"], ours=is_ours(pid), state=state(pid), command=(h.get("process") or {}).get("command"))
    for g in doc["gpus"]:
        i = g["index"]
        u, l, d, o = (g.get(k) for k in ("used_bytes", "listed_bytes", "driver_bytes", "unowned_bytes"))
        lo, hi = UNOWNED.get(i, (0, 2 * MIB))
        known = None not in (u, l, o)
        rec = dict(tag=tag, gpu=i, used=u, listed=l, driver=d, unowned=o, stable=stable, volatile=volatile, lo=lo, hi=hi, processes=len(g.get("keepers", [])),
                   exact=known and u == l + d + o, within=known and lo <= o <= hi)
        ACCOUNT.append(rec)
        log("account", **rec)
        if not known:
            fail("bytes unknown", tag, gpu=g)
        elif u != l + d + o:
            fail("sum", tag, gpu=i, used=u, listed=l, driver=d, unowned=o, off=u - l - d - o)
        if known and stable and not lo <= o <= hi:
            fail("unowned", tag, gpu=i, mib=round(o / MIB, 3), wanted_mib=[lo / MIB, hi / MIB], driver_mib=round(d / MIB, 3), rest_mib=round((u - l) / MIB, 3))
        if stable and i < len(after):
            w = after[i]
            if u is not None and u != w["used"]:
                fail("used", tag, gpu=i, says=u, nvml=w["used"])
            for pid, used in w["list"].items():
                m = [m.get("used_bytes") for m in holders.get(pid, {"memory": []})["memory"] if m["gpu"] == i]
                if m != [used]:
                    fail("memory", tag, gpu=i, pid=pid, says=m, nvml=used)
            COUNT["stable GPU readings"] += 1
    return doc


def find(doc, key):
    if isinstance(doc, dict):
        return [v for k, v in doc.items() if k == key] + [x for v in doc.values() for x in find(v, key)]
    return [x for v in doc for x in find(v, key)] if isinstance(doc, list) else []


def policy(tag, rules, wanted, over=None, **k):
    args = ["--forbid", rules] + (["--over", over] if over else [])
    rc, out, err, wall = who(*args, **k)
    COUNT["policies"] += 1
    log("policy", tag=tag, rules=rules, over=over, rc=rc, wanted=sorted(wanted), wall=round(wall, 2), out=out[-700:], err=err[-400:], user=k.get("user"))
    if rc not in wanted:
        fail("policy", f"{tag}: --forbid {rules}", rc=rc, wanted=sorted(wanted), out=out[-400:], err=err[-300:], user=k.get("user"))
    return rc


SECTIONS = []


def section(limit):
    def add(f):
        SECTIONS.append((f.__name__, limit, f))
        return f
    return add


class Late(BaseException):
    pass


def alarm(*_):
    raise Late("time limit of the section")


def attempt(label, f):
    """One kind of program: an error in it does not end the section."""
    try:
        f()
    except Late:
        raise
    except Exception as e:
        fail("did not run", label, error=repr(e)[:700])


@contextlib.contextmanager
def alone(*runs):
    try:
        yield
    finally:
        for r in runs:
            r.stop()
        settle()


# ---------------------------------------------------------------- frameworks, started early and held at a gate
FRAME, NVCC = {}, None
TORCH = "import torch\nrole('main'); gate()\n"
LOOP = """
import torch, mmap, struct
role('main'); gate()
with span('init'): torch.cuda.init()
with span('ctx'): x=torch.ones(1024,1024,device='cuda'); torch.cuda.synchronize()
ready(); at=[]
def train_step():
    y=x@x; y=y@x; y=torch.relu(y*1e-6); torch.cuda.synchronize(); at.append(time.time())
last=0
while not os.path.exists(os.environ['HOLDERS_GATE']+'.stop'):
    train_step()
    if at[-1]-last>.1:
        last=at[-1]; open(os.environ['HOLDERS_GATE']+'.n','w').write(str(len(at)))
open(os.environ['HOLDERS_GATE']+'.json','w').write(json.dumps(at)); rep('done'); stay()
"""
FRAMEWORKS = {
    "torch imported only": TORCH + "ready(); stay()",
    "torch init only": TORCH + "with span('init'): torch.cuda.init()\nready(); stay()",
    "torch 256 MiB": TORCH + "with span('init'): torch.cuda.init()\nwith span('ctx'): x=torch.zeros(64<<20,device='cuda'); torch.cuda.synchronize()\nready(); stay()",
    "cupy": "import cupy\nrole('main'); gate()\nwith span('init'): cupy.cuda.runtime.getDeviceCount()\nwith span('ctx'): x=cupy.zeros(16<<20,dtype='f4'); cupy.cuda.runtime.deviceSynchronize()\nready(); stay()",
    "jax": "import jax, jax.numpy as jnp\nrole('main'); gate()\nwith span('init','ctx'): x=jnp.zeros(1<<20)+1; x.block_until_ready()\nready(); stay()",
    "numba": "from numba import cuda\nrole('main'); gate()\nwith span('init'): len(cuda.gpus)\nwith span('ctx'): x=cuda.device_array(1<<20)\nready(); stay()",
    "torch.multiprocessing spawn": "import torch\ndef work(i):\n    role('w%d'%i); gate()\n    with span('init'): torch.cuda.init()\n    with span('ctx'): x=torch.zeros(1<<20,device='cuda'); torch.cuda.synchronize()\n    ready(); stay()\nif __name__=='__main__':\n    import torch.multiprocessing as tm\n    role('main'); c=tm.get_context('spawn'); ps=[c.Process(target=work,args=(i,)) for i in range(2)]; [p.start() for p in ps]; ready(); stay()",
    "DataLoader": "import torch\nfrom torch.utils.data import DataLoader\nclass D(torch.utils.data.Dataset):\n    def __len__(s): return 64\n    def __getitem__(s,i): return torch.zeros(4)\ndef seed(i): role('w%d'%i)\nrole('main'); gate()\nwith span('init'): torch.cuda.init()\nwith span('ctx'): x=torch.zeros(1<<20,device='cuda'); torch.cuda.synchronize()\nit=iter(DataLoader(D(),batch_size=4,num_workers=2,persistent_workers=True,worker_init_fn=seed,multiprocessing_context='fork')); next(it); ready(); stay()",
    "torch loop": LOOP,
}
NVCC_SOURCE = r'''
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double now(clockid_t c){ struct timespec t; clock_gettime(c,&t); return t.tv_sec+t.tv_nsec*1e-9; }
int main(){ FILE*f=fopen(getenv("HOLDERS_REPORT"),"a"); int n=0; void*p=0; double b0,b1,w0,w1; int r;
 for(int k=0;k<2;k++){ b0=now(CLOCK_BOOTTIME); w0=now(CLOCK_REALTIME); r=k?cudaMalloc(&p,64<<20):cudaGetDeviceCount(&n); w1=now(CLOCK_REALTIME); b1=now(CLOCK_BOOTTIME);
  fprintf(f,"{\"what\":\"%s\",\"pid\":%d,\"rc\":%d,\"b0\":%.6f,\"b1\":%.6f,\"w0\":%.6f,\"w1\":%.6f,\"exact\":false}\n",k?"ctx":"init",getpid(),r,b0,b1,w0,w1); }
 fprintf(f,"{\"what\":\"ready\",\"pid\":%d}\n",getpid()); fflush(f); for(;;) sleep(600); }
'''


@section(12)
def begin():
    global NGPU, NVCC
    rc, out, err, wall = who("--json")
    doc = json.loads(out)
    BASE_UNSEEN.extend(doc["unseen"])
    FOREIGN.update(h["pid"] for h in doc["holders"])
    log("baseline", rc=rc, wall=wall, doc=doc, euid=os.geteuid(), uname=list(os.uname()), pid1=open("/proc/1/comm").read().strip(),
        pid2=open("/proc/2/comm").read().strip() if os.path.exists("/proc/2/comm") else None)
    if doc["holders"]:
        note("holders before the start: " + str([(h["pid"], h["kind"]) for h in doc["holders"]]))
    if doc["unseen"]:
        note("unseen before the start: " + json.dumps(doc["unseen"])[:300])
    for name, code in FRAMEWORKS.items():
        FRAME[name] = Run(name, code)
        expect(FRAME[name].p.pid, name + ", imported", PLAIN, must=False)
    if shutil.which("nvcc"):
        open(DIR + "/c.cu", "w").write(NVCC_SOURCE)
        NVCC = subprocess.Popen(["nvcc", "-o", DIR + "/c", DIR + "/c.cu"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOLDERS": MARK})
    W.begin()
    NGPU = len(W.read())
    if NGPU != len(doc["gpus"]):
        fail("GPUs", "count", says=len(doc["gpus"]), nvml=NGPU)


@section(40)
def policy_clean():
    """No holder at all: the witness is away; the imported frameworks have not touched CUDA."""
    W.end()
    clean = {0, 3} if BASE_UNSEEN else {0}
    for rules in ("holders", "leftover>64MiB", "orphans", "holders,leftover>64MiB,orphans"):
        policy("clean", rules, clean)
    policy("clean", "idle>5s", clean, over="6s")
    for rules in ("holders", "leftover>64MiB", "orphans"):
        policy("clean, other user", rules, {0, 3}, user=NOBODY)
    rc, out, err, _ = who(user=NOBODY)
    log("text", tag="clean, other user", rc=rc, out=out, err=err)
    W.begin()
    policy("only an NVML reader (opinion: holds nothing)", "holders", clean)


# label, code, kinds, more for expect()
def singles():
    one = "init(); d,c=ctx(); alloc(64<<20); "
    S = [
        ("plain python", "ready(); stay()", PLAIN, {}),
        ("libcuda loaded", "cu(); ready(); stay()", PLAIN, {}),
        ("cuDeviceGetCount without cuInit", "n=ctypes.c_int(); rep('count',rc=cu().cuDeviceGetCount(ctypes.byref(n))); ready(); stay()", PLAIN, {}),
        ("NVML only", "nvml(); ready(); stay()", N, dict(must=True)),
        ("NVML and shutdown", "n=nvml(); rep('shut',rc=n.nvmlShutdown()); ready(); stay()", N | PLAIN, {}),
        ("open /dev/nvidia0 only", "f=os.open('/dev/nvidia0',os.O_RDWR); ready(); stay()", {"descriptor_only"}, dict(must=False)),
        ("cuInit", "init(); ready(); stay()", I, dict(contexts=0, which=None)),
        ("cuInit with an empty mask", "init(); ready(); stay()", I | PLAIN | N | {"descriptor_only"}, dict(must=False, env={"CUDA_VISIBLE_DEVICES": "-1"})),
        ("one context", "time.sleep(.3); init(); time.sleep(.5); ctx(); alloc(64<<20); ready(); stay()", C, dict(contexts=1)),
        ("context released", one + "cu().cuDevicePrimaryCtxRelease_v2(d); ready(); stay()", I, dict(contexts=0, which=None)),
        ("context reset", one + "cu().cuDevicePrimaryCtxReset_v2(d); ready(); stay()", I, dict(contexts=0, which=None)),
        ("context again after 1 s", one + "cu().cuDevicePrimaryCtxRelease_v2(d); time.sleep(1); ctx(); ready(); stay()", C, dict(contexts=1, which=-1)),
        ("two contexts on one GPU", one + "x=ctypes.c_void_p(); rep('second',rc=cu().cuCtxCreate_v2(ctypes.byref(x),0,d)); ready(); stay()", C, dict(contexts=2)),
        ("first of two contexts gone", one + "time.sleep(.5); x=ctypes.c_void_p()\nwith span('ctx',exact=True) as s: s.rc=cu().cuCtxCreate_v2(ctypes.byref(x),0,d)\ncu().cuDevicePrimaryCtxRelease_v2(d); ready(); stay()", C, dict(contexts=1, which=-1)),
        ("context in another thread", "def f():\n    init(); ctx(); alloc(16<<20); ready(); stay()\nthreading.Thread(target=f).start(); stay()", C, dict(contexts=1)),
        ("main thread has ended", one + "ready(); ctypes.CDLL(None).syscall(60,0)", C | {"ended", "listed"}, dict(must=True)),
        ("1 GiB", "init(); ctx(); alloc(1<<30); ready(); stay()", C, dict(contexts=1)),
        ("managed memory, 16 MiB", "init(); ctx(); p=ctypes.c_void_p(); rep('managed',rc=cu().cuMemAllocManaged(ctypes.byref(p),ctypes.c_size_t(16<<20),1)); ready(); stay()", C, {}),
        ("NVML, 1 s later cuInit", "nvml(); time.sleep(1); init(); time.sleep(.3); ctx(); ready(); stay()", C, {}),
        ("NVML, 1 s later cuInit only", "nvml(); time.sleep(1); init(); ready(); stay()", I, dict(which=None)),
        ("cuInit, 1 s later NVML", "init(); time.sleep(1); nvml(); ready(); stay()", I, dict(which=None)),
        ("NVML, shutdown, 1 s later cuInit", "n=nvml(); n.nvmlShutdown(); time.sleep(1); init(); ctx(); ready(); stay()", C, {}),
        ("mask changed after the context", one + "os.environ['CUDA_VISIBLE_DEVICES']='1'; ready(); stay()", C, dict(conds={"mask_changed"}, env={"CUDA_VISIBLE_DEVICES": "0"})),
        ("mask set by the program before cuInit", "os.environ['CUDA_VISIBLE_DEVICES']='0'; " + one + "ready(); stay()", C, {}),
        ("names of driver threads without CUDA", "l=ctypes.CDLL(None)\ndef f(n):\n    l.prctl(15,n,0,0,0); stay()\nfor n in (b'cuda-EvtHandlr',b'cuda00001400006'): threading.Thread(target=f,args=(n,)).start()\ntime.sleep(.1); ready(); stay()", PLAIN, {}),
        ("context, then exec", one + "role('main'); os.set_inheritable(FD,True); os.execv(sys.executable,[sys.executable,'-c',\"import os,time; os.write(%d,b'{\\\"what\\\":\\\"ready\\\",\\\"pid\\\":%d}\\\\n'); time.sleep(600)\"%(FD,os.getpid())])", PLAIN, dict(norun=True)),
        ("stopped", one + "ready(); os.kill(os.getpid(),signal.SIGSTOP); stay()", C, dict(conds={"stopped"}, pause=.1)),
        ("other user", "cu(); os.setgroups([]); os.setgid(65534); os.setuid(65534); " + one + "ready(); stay()", C, {}),
        ("unshare -pf --mount-proc", one + "ready(); stay()", C, dict(wrap=("unshare", "-pf", "--mount-proc"))),
        ("nohup", one + "ready(); stay()", C, dict(wrap=("nohup",), never={"orphan"})),
        ("setsid, parent alive", one + "ready(); stay()", C, dict(wrap=("setsid",), never={"orphan"})),
    ]
    if NGPU > 1:
        S += [("contexts on all GPUs", "init()\nfor i in range(%d): ctx(i); alloc(32<<20)\nready(); stay()" % NGPU, C, dict(contexts=NGPU, gpus=list(range(NGPU)))),
              ("last GPU by mask", one + "ready(); stay()", C, dict(contexts=1, gpus=[NGPU - 1], env={"CUDA_VISIBLE_DEVICES": str(NGPU - 1), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}))]
    return S


def launch(entry):
    label, code, kinds, more = entry
    more = dict(more)
    norun, pause = more.pop("norun", False), more.pop("pause", 0)
    k = {n: more.pop(n) for n in ("env", "wrap", "user") if n in more}
    r = start(label, code, **k)
    time.sleep(pause)
    expect(r.pid(), label, kinds, run=None if norun else r, **more)
    return r


@section(75)
def single():
    for entry in singles():
        def do():
            r = launch(entry)
            with alone(r):
                reading(entry[0])
        attempt(entry[0], do)
    if NVCC is not None:
        def do():
            if NVCC.wait(10) != 0:
                raise RuntimeError("nvcc failed")
            r = start("C program by nvcc", "", argv=[DIR + "/c"])
            with alone(r):
                expect(r.pid(), "C program by nvcc", C, run=r, contexts=1)
                reading("C program by nvcc")
        attempt("C program by nvcc", do)


FORK = "c=os.fork()\nif c==0:\n    role('child'); {child}ready(); stay()\nrole('parent'); {parent}ready(); stay()\n"


@section(60)
def families():
    one = "init(); ctx(); alloc(64<<20); "

    def fork_before():
        r = start("fork before cuInit", FORK.format(child=one, parent=""), 2)
        c, p = r.pid("child"), r.pid()
        with alone(r):
            expect(c, "fork before: child", C, run=r, contexts=1, never={"orphan"})
            expect(p, "fork before: parent", PLAIN)
            reading("fork before")
            kill(p); r.p.wait(); EXPECT.pop(p)
            time.sleep(.2)
            expect(c, "orphan after kill -9 of the parent", C, {"orphan"}, run=r)
            reading("orphan")
            policy("orphan", "orphans", {1})
            policy("orphan, other user", "orphans", {1, 3}, user=NOBODY)
            kill(c, signal.SIGSTOP)
            time.sleep(.1)
            expect(c, "stopped orphan", C, {"orphan", "stopped"}, run=r)
            reading("stopped orphan")

    def fork_after():
        r = start("fork after context", one + FORK.format(child="rep('try',got=cu().cuInit(0)); ", parent=""), 2)
        c, p = r.pid("child"), r.pid()
        with alone(r):
            expect(p, "fork after: parent", C, run=r, contexts=1)
            expect(c, "fork after: child", INH, never={"orphan"})
            reading("fork after")
            kill(p); r.p.wait()
            time.sleep(.5)
            listed = any(p in g["list"] for g in W.read())
            expect(p, "fork after: killed parent, kept by the child", {"ended"}, must=listed)
            expect(c, "fork after: child keeps memory", INH, {"orphan", "keeps"} if listed else {"orphan"})
            UNOWNED[0] = (0, 12 * MIB)   # the driver's part for a dead process: nobody's
            reading("fork after, parent killed")
            UNOWNED.clear()
            policy("child keeps memory of its killed parent", "holders", {1})
            policy("child keeps memory of its killed parent (opinion: leftover)", "leftover>64MiB", {1})
            kill(c); EXPECT.pop(p); EXPECT.pop(c)
            settle()
            reading("fork after, both killed")

    def fork_init():
        r = start("fork after cuInit", "init()\n" + FORK.format(child="", parent=""), 2)
        with alone(r):
            expect(r.pid(), "fork after cuInit: parent", I, run=r)
            expect(r.pid("child"), "fork after cuInit: child", INH)
            reading("fork after cuInit")

    def fork_nvml():
        r = start("fork after NVML", "nvml()\n" + FORK.format(child="", parent=""), 2)
        with alone(r):
            expect(r.pid(), "fork after NVML: parent", N, must=True)
            expect(r.pid("child"), "fork after NVML: child", N | PLAIN | INH | {"descriptor_only"}, must=False)
            reading("fork after NVML")

    def grandchild():
        r = start("grandchild inherits", one + "\nif os.fork()==0:\n    role('child')\n    if os.fork()==0: role('grand'); ready(); stay()\n    ready(); stay()\nready(); stay()", 3)
        with alone(r):
            expect(r.pid(), "grandchild: parent", C, run=r)
            for n in ("child", "grand"):
                expect(r.pid(n), "grandchild: " + n, INH)
            reading("grandchild")

    def zombies():
        r = start("zombie with a living parent", FORK.format(child=one, parent=""), 2)
        with alone(r):
            c = r.pid("child")
            kill(c)
            time.sleep(.5)
            expect(r.pid(), "zombie: parent", PLAIN)
            expect(c, "zombie", ANY - C, must=False)
            reading("zombie")
            policy("only a zombie that holds nothing (opinion)", "holders", {0, 3} if BASE_UNSEEN else {0})

    def daemon():
        r = start("daemon by double fork", "if os.fork()==0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    role('daemon'); init(); ctx(); ready(); stay()\nos.wait()")
        r.p.wait(5)
        with alone(r):
            expect(r.pid("daemon"), "daemon by double fork", C, run=r)
            doc = reading("daemon")
            note("daemon by double fork is called orphan: %s" % (doc and ["orphan" in [c["kind"] for c in h["conditions"]] for h in doc["holders"] if h["pid"] == r.pid("daemon")]))

    def shell():
        r = Run("nohup in a shell that ends", "role('main'); " + one + "ready(); stay()", argv=["sh", "-c", "true"])
        r.p.wait()
        subprocess.run(["sh", "-c", f"nohup '{sys.executable}' '{r.file}' >/dev/null 2>&1 &"], cwd=DIR, env={**os.environ, "HOLDERS": MARK, "HOLDERS_REPORT": r.report, "HOLDERS_GATE": r.gate, "PYTHONPATH": DIR}, timeout=5)
        r.wait()
        with alone(r):
            expect(r.pid("main"), r.label, C, run=r)
            doc = reading(r.label)
            note("nohup'd child of a shell that has ended is called orphan: %s" % (doc and ["orphan" in [c["kind"] for c in h["conditions"]] for h in doc["holders"] if h["pid"] == r.pid("main")]))

    def sleeper():
        r = start("child by exec with close_fds=False", one + "import subprocess; p=subprocess.Popen(['sleep','600'],close_fds=False); rep('role',name='me'); rep('sleep',child=p.pid); ready(); stay()")
        with alone(r):
            expect(r.pid(), "exec child: parent", C, run=r)
            expect(next(d["child"] for d in r.lines() if d["what"] == "sleep"), "exec child: sleep", PLAIN)
            reading("exec child")

    def server():
        r = start("server with workers", "import subprocess\nif len(sys.argv)>1:\n    role('w'+sys.argv[1]); init(); ctx(int(sys.argv[1])%%%d); alloc(32<<20); ready(); stay()\nrole('main')\nps=[subprocess.Popen([sys.executable,__file__,str(i)]) for i in range(4)]\nready(); stay()" % NGPU, 5)
        with alone(r):
            expect(r.pid(), "server", PLAIN)
            for p in r.pids("w"):
                expect(p, "worker", C, run=r, contexts=1, never={"orphan"})
            for _ in range(10):
                reading("server with workers")
            kill(r.pid()); r.p.wait(); EXPECT.pop(r.pid())
            for p in r.pids("w"):
                expect(p, "worker of a killed server", C, {"orphan"}, run=r, contexts=1)
            time.sleep(.2)
            for _ in range(3):
                reading("workers of a killed server")

    for f in (fork_before, fork_after, fork_init, fork_nvml, grandchild, zombies, daemon, shell, sleeper, server):
        attempt(f.__name__, f)


@section(40)
def sharing():
    sock = DIR + "/fd%d.sock"

    def vmm(n, importer):
        path = sock % n
        label = "VMM descriptor, " + ("importer" if importer else "no CUDA")
        use = "init(); ctx(); h=ctypes.c_ulonglong(); rep('import',rc=cu().cuMemImportFromShareableHandle(ctypes.byref(h),ctypes.c_void_p(f),1)); " if importer else ""
        r = Run(label, f"f=recv_fd({path!r}); {use}ready(); stay()").wait(what="listening", timeout=8)
        o = Run(label + ": owner", f"init(); ctx(); send_fd(vmm_fd(256<<20),{path!r}); ready(); stay()")
        with alone(r, o):
            o.wait(timeout=8); r.wait(timeout=8)
            expect(o.pid(), label + ": owner", C, run=o)
            expect(r.pid(), label, C if importer else {"descriptor_only"}, run=r)
            reading(label + ", owner alive")
            o.stop()
            settle()
            rest = W.read()[0]
            log("vmm", label=label, witness=rest)
            UNOWNED[0] = (254 * MIB, 258 * MIB)   # NVML counts it for neither: measured
            try:
                doc = reading(label + ", owner killed")
                if doc and r.pid() not in doc["gpus"][0]["keepers"]:
                    fail("keepers", label, keepers=doc["gpus"][0]["keepers"], wanted=r.pid())
                if not importer:
                    policy(label, "leftover>64MiB", {1})
                    policy(label, "leftover>300MiB", {0, 3} if BASE_UNSEEN else {0})
                    policy(label + ", other user", "leftover>64MiB", {1, 3}, user=NOBODY)
            finally:
                UNOWNED.clear()

    def ipc():
        path = DIR + "/ipc"
        o = start("IPC owner", f"init(); ctx(); p=alloc(256<<20); h=(ctypes.c_ubyte*64)(); rep('get',rc=cu().cuIpcGetMemHandle(h,p)); open({path!r},'wb').write(bytes(h)); ready(); stay()")
        with alone(o):
            r = start("IPC importer", f"init(); ctx()\nclass H(ctypes.Structure): _fields_=[('b',ctypes.c_ubyte*64)]\nh=H.from_buffer_copy(open({path!r},'rb').read()); p=ctypes.c_void_p(); rep('open',rc=cu().cuIpcOpenMemHandle_v2(ctypes.byref(p),h,1)); ready(); stay()")
            with alone(r):
                expect(o.pid(), "IPC owner", C, run=o)
                expect(r.pid(), "IPC importer", C, run=r)
                reading("IPC, both alive")
                o.stop()
                settle()
                reading("IPC, owner killed")

    def checkpoint():
        r = start("checkpointed", "init(); ctx(); alloc(256<<20); ready(); stay()")
        with alone(r):
            code = "import ctypes,sys,json; c=ctypes.CDLL('libcuda.so.1'); print(json.dumps([getattr(c,'cuCheckpointProcess'+f)(%d,None) for f in sys.argv[1:]]))" % r.pid()
            run = lambda *f: subprocess.run([sys.executable, "-c", code, *f], capture_output=True, text=True, timeout=15, env={**os.environ, "HOLDERS": MARK}).stdout.strip()
            got = run("Lock", "Checkpoint")
            log("checkpoint", got=got)
            if got != "[0, 0]":
                note("checkpoint did not work: " + got)
                return
            settle()
            expect(r.pid(), "checkpointed", {"checkpointed"}, which=None, run=None)
            reading("checkpointed")
            policy("checkpointed (opinion: a holder)", "holders", {1})
            got = run("Restore", "Unlock")
            log("restore", got=got)
            if got == "[0, 0]":
                expect(r.pid(), "restored", C)
                doc = reading("restored")
                note("since after a restore: " + str([(h.get("cuda_since_unix_ms"), h.get("context_since_unix_ms")) for h in (doc or {"holders": []})["holders"] if h["pid"] == r.pid()]) + " program: " + str([(d["what"], int(d["w0"] * 1000)) for d in r.lines() if "w0" in d]))

    attempt("VMM, no CUDA", lambda: vmm(1, False))
    attempt("VMM, importer", lambda: vmm(2, True))
    attempt("IPC", ipc)
    attempt("checkpoint", checkpoint)


POOL = """
import multiprocessing as mp
def work(i):
    role('w%d'%i); init(); ctx(); alloc(16<<20); ready(); stay()
if __name__=='__main__':
    role('main'); c=mp.get_context(os.environ['METHOD']); p=c.Pool(3); a=p.map_async(work,range(3),chunksize=1); ready(); stay()
"""


@section(30)
def pools():
    runs = []
    for m in ("fork", "spawn", "forkserver"):
        def do():
            r = start("pool by " + m, POOL, 4, env={"METHOD": m})
            runs.append(r)
            expect(r.pid(), f"pool by {m}: main", PLAIN)
            for p in r.pids("w"):
                expect(p, f"pool by {m}: worker", C, run=r, contexts=1, never={"orphan"})
            reading("pool by " + m)
        attempt("pool by " + m, do)
    with alone(*runs):
        for _ in range(10):
            reading("three pools at once")
        for r in runs:
            kill(r.pid())
            r.p.wait()
            EXPECT.pop(r.pid(), None)
        time.sleep(.4)
        for r in runs:
            for p in r.pids("w"):
                if state(p) not in (None, "Z"):
                    expect(p, r.label + ": worker, main killed", C, run=r)
                else:
                    EXPECT.pop(p, None)
        doc = reading("pools, mains killed", volatile=True)


@section(55)
def frameworks():
    runs = []
    for name, r in FRAME.items():
        if name == "torch loop":
            continue

        def do():
            r.wait(what="gated", timeout=25, n=2 if "spawn" in name else 1)
            reading("imported: " + name)
            r.go()
            r.wait(3 if "spawn" in name else 1, timeout=25)
            runs.append(r)
            if name == "torch imported only":
                expect(r.pid(), name, PLAIN | N)
            elif name == "torch init only":
                expect(r.pid(), name, I, run=r, which=None)
            elif "spawn" in name:
                expect(r.pid(), name + ": main", PLAIN)
            else:
                expect(r.pid(), name, C, run=r, contexts=1 if NGPU == 1 else None)
            for p in r.pids("w"):
                expect(p, name + ": worker", C if "spawn" in name else INH, run=r if "spawn" in name else None)
            reading(name)
        attempt(name, do)
    with alone(*runs):
        for _ in range(10):
            reading("all frameworks at once")


@section(30)
def mps():
    if not shutil.which("nvidia-cuda-mps-control"):
        raise RuntimeError("no nvidia-cuda-mps-control")
    pipe = DIR + "/mps"
    env = {"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_LOG_DIRECTORY": pipe + "-log"}
    for d in env.values():
        os.makedirs(d, exist_ok=True)
    full = {**os.environ, **env, "HOLDERS": MARK}
    runs = []
    try:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=full, timeout=10, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def daemons():
            out = []
            for d in os.listdir("/proc"):
                with contextlib.suppress(OSError):
                    if d.isdigit() and open(f"/proc/{d}/comm").read().startswith("nvidia-cuda-mps") and state(int(d)) != "Z":
                        out.append(int(d))
            return out
        for p in daemons():
            expect(p, "MPS control", {"mps_server"}, must=False)
        PROGRAMS.add("MPS control")
        reading("MPS control only")
        for k in range(2):
            r = start("MPS client", "init(); ctx(); alloc(64<<20); ready(); stay()", env=env)
            runs.append(r)
            expect(r.pid(), "MPS client", {"mps_client"}, run=r)
        for p in daemons():
            expect(p, "MPS server or control", {"mps_server"})
        PROGRAMS.add("MPS server")
        log("mps", daemons=daemons(), clients=[r.pid() for r in runs])
        for _ in range(5):
            reading("MPS, two clients")
        runs[0].stop()
        settle()
        reading("MPS, one client")
        r = start("context beside MPS", "init(); ctx(); ready(); stay()")
        runs.append(r)
        expect(r.pid(), "context beside MPS", C, run=r)
        reading("MPS and a context beside it")
    finally:
        for r in runs:
            r.stop()
        with contextlib.suppress(Exception):
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=full, timeout=8, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(.5)
        for p in ours_alive():
            with contextlib.suppress(OSError):
                if open(f"/proc/{p}/comm").read().startswith("nvidia-cuda-mps"):
                    kill(p)
        for p in [p for p, e in EXPECT.items() if e["label"].startswith("MPS")]:
            EXPECT.pop(p)
        settle()


@section(30)
def together():
    names = {"libcuda loaded", "NVML only", "cuInit", "one context", "context released", "two contexts on one GPU", "context in another thread", "cuInit, 1 s later NVML",
             "NVML, 1 s later cuInit", "mask changed after the context", "other user", "unshare -pf --mount-proc", "stopped", "contexts on all GPUs", "last GPU by mask"}
    runs = []
    for entry in singles():
        if entry[0] in names:
            attempt("together: " + entry[0], lambda: runs.append(launch(entry)))
    with alone(*runs):
        for _ in range(10):
            reading("together")
        for user in (None, NOBODY):
            for args in ((), ("--json", "--redact")):
                rc, out, err, wall = who(*args, user=user)
                log("text", tag="together", user=user, args=args, rc=rc, out=out, err=err)
                if not args and max(map(len, out.splitlines() or [""])) > 80:
                    fail("80 columns", "together", user=user, longest=max(out.splitlines(), key=len))
                if "--redact" in args and (DIR in out or MARK.split("-")[0] + "-" in out):
                    fail("redact", "together", user=user, at=[l.strip()[:200] for l in out.splitlines() if MARK.split("-")[0] + "-" in l][:5])
        # as another user, with holders
        doc = reading("together, other user", user=NOBODY, compare=False)
        if doc:
            by = {h["pid"]: h for h in doc["holders"]}
            shown = {e["label"]: by[p]["kind"] if p in by else None for p, e in EXPECT.items()}
            log("other user", shown=shown, unseen=doc["unseen"])
            note("other user sees: " + json.dumps(shown))
            for g in W.read():
                for p in g["list"]:
                    if p not in by:
                        fail("missed", "other user: NVML lists it", pid=p)
            for p, e in EXPECT.items():
                if p in by and by[p]["kind"] in HOLDING and not e["kinds"] & HOLDING and by[p]["kind"] != "initialized_or_nvml":
                    fail("invented", "other user: " + e["label"], pid=p, kind=by[p]["kind"])
            if not any(u["kind"] == "unread" for u in doc["unseen"]):
                fail("unseen", "other user", unseen=doc["unseen"])
        policy("together, other user", "holders", {1, 3}, user=NOBODY)
        # inside a PID namespace
        inside = ("unshare", "-pf", "--mount-proc")
        rc, out, err, wall = who("--json", wrap=inside)
        log("namespace", rc=rc, out=out[:20000], err=err[-500:])
        with contextlib.suppress(ValueError):
            doc = json.loads(out)
            note("inside unshare: exit %s, holders %s, unseen %s, unowned MiB %s" % (rc, [(h["pid"], h["kind"]) for h in doc["holders"]], [u["kind"] for u in doc["unseen"]], [g.get("unowned_bytes") and round(g["unowned_bytes"] / MIB, 2) for g in doc["gpus"]]))
            if rc != 0:
                fail("exit code", "namespace", rc=rc)
            if not any(u["kind"] == "namespace" for u in doc["unseen"]):
                fail("unseen", "namespace", unseen=doc["unseen"])
        rc, out, err, wall = who(wrap=inside)
        log("text", tag="namespace", rc=rc, out=out, err=err)
        policy("holders outside of the PID namespace", "holders", {1, 3}, wrap=inside)


@section(40)
def churn():
    code = """
end=time.time()+14
def one(k):
    role('w%d'%k); init(); ctx() if k%2 else None; time.sleep(.05*(k%5)); os._exit(0)
k=0; live=set(); ready()
while time.time()<end:
    while len(live)<4:
        k+=1; c=os.fork()
        if c==0: one(k)
        live.add(c)
    p,_=os.wait(); live.discard(p)
for p in live: os.waitpid(p,0)
rep('done',n=k); stay()
"""
    keep = start("context beside short-lived processes", "init(); ctx(); alloc(64<<20); ready(); stay()")
    expect(keep.pid(), keep.label, C, run=keep, contexts=1)
    r = start("short-lived processes", code)
    with alone(r, keep):
        expect(r.pid(), "short-lived processes: parent", PLAIN)
        seen = set()
        while COUNT["readings beside short-lived processes"] < 30 and not any(d["what"] == "done" for d in r.lines()):
            doc = reading("short-lived", volatile=True)
            COUNT["readings beside short-lived processes"] += 1
            mine = set(r.pids("w"))
            for h in (doc or {"holders": []})["holders"]:
                if h["pid"] in EXPECT or h["pid"] in FOREIGN:
                    continue
                seen.add(h["pid"])
                if h["pid"] not in mine:
                    if h["kind"] in HOLDING: fail("invented", "short-lived", pid=h["pid"], kind=h["kind"], state=state(h["pid"]))
                elif h["kind"] not in C | I | N | {"ended", "listed", "unrelated", "descriptor_only", "inherited"}:
                    fail("kind", "short-lived", pid=h["pid"], kind=h["kind"])
                else:
                    COUNT["short-lived seen as " + h["kind"]] += 1
                    if h["kind"] in ("context", "initialized"):
                        note_since(h, dict(run=r, label="short-lived", which=0))
        COUNT["short-lived processes seen"] = len(seen)
        COUNT["short-lived processes started"] = len(r.pids("w"))


@section(60)
def policies():
    loop = start("loop of small kernels", "init(); ctx(); spin(0)")
    with alone(loop):
        expect(loop.pid(), loop.label, C, run=loop, never={"idle"})
        is_busy = next(d for d in loop.lines() if d["what"] == "module")
        log("module", line=is_busy)
        if is_busy["rc"] or is_busy["function"]:
            note("the spin kernel did not load: " + str(is_busy))
        else:
            policy("busy", "idle>5s", {0, 3} if BASE_UNSEEN else {0}, over="6s")
        idle = start("idle context", "init(); ctx(); alloc(64<<20); ready(); stay()")
        sparse = start("0.1 ms of work each 100 ms", "init(); ctx(); spin(.1)")
        with alone(idle, sparse):
            expect(idle.pid(), idle.label, C, run=idle)
            expect(sparse.pid(), sparse.label, C, run=sparse)
            time.sleep(2)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                at_once = [pool.submit(policy, "one idle, one busy", "idle>5s", {1}, over="6s"),
                           pool.submit(policy, "one idle, one busy: other user", "idle>5s", {1, 3}, over="6s", user=NOBODY)]
                rc, out, err, wall = who("--json", "--over", "6s")
                [f.result() for f in at_once]
            with contextlib.suppress(ValueError):
                doc = json.loads(out)
                by = {h["pid"]: ([c for c in h["conditions"] if c["kind"] == "idle"], h["memory"]) for h in doc["holders"]}
                log("idle", busy=by.get(loop.pid()), idle=by.get(idle.pid()), sparse=by.get(sparse.pid()), wall=wall)
                note("idle after 6 s: busy %s, idle %s, sparse %s" % tuple(by.get(x.pid(), "-") for x in (loop, idle, sparse)))
                if by.get(loop.pid(), ([],))[0]:
                    fail("condition", "busy process is called idle", conditions=by[loop.pid()])
                if not by.get(idle.pid(), ([],))[0]:
                    fail("condition", "idle process is not called idle", conditions=by.get(idle.pid()))
                if by.get(sparse.pid(), ([],))[0]:
                    note("QUESTION: a process with 0.1 ms of work each 100 ms is called idle")
            policy("one idle", "holders", {1})
            policy("one idle", "holders,leftover>64MiB", {1})
            policy("one idle", "leftover>64MiB", {0, 3} if BASE_UNSEEN else {0})
            policy("one idle", "orphans", {0, 3} if BASE_UNSEEN else {0})
            policy("one idle: other user", "holders", {1}, user=NOBODY)
    r = start("cuInit", "init(); ready(); stay()")
    with alone(r):
        expect(r.pid(), "cuInit", I, run=r)
        policy("cuInit only", "holders", {1})
        policy("cuInit only: other user", "holders", {1, 3}, user=NOBODY)
    rc = who("--forbid", "nonsense")[0]
    if rc in (0, 1, 3):
        fail("policy", "a wrong rule", rc=rc)


@section(45)
def speed():
    code = """
role('main')
threading.stack_size(65536)
def sleeper(): stay()
for k in range(%d):
    if os.fork()==0:
        role(('cuda%%d' if k<%d else 'plain%%d')%%k)
        for _ in range(63): threading.Thread(target=sleeper,daemon=True).start()
        if k<%d: init()
        ready(); stay()
ready(); stay()
""" % (MANY, MANY // 5, MANY // 5)
    r = start("100 processes with 64 threads", code, MANY + 1, timeout=30)
    with alone(r):
        for p in r.pids("cuda"):
            expect(p, "one of 20 of 100 with cuInit", I, run=r, which=None)
        for p in r.pids("plain"):
            expect(p, "one of 80 of 100 without CUDA", PLAIN)
        for user in (None, NOBODY):
            walls = []
            for _ in range(5):
                rc, out, err, wall = who("--json", user=user)
                walls.append(round(wall, 3))
            log("speed", user=user, walls=walls)
            note("speed, 100 processes with 64 threads, user %s: %s s" % (user or "root", walls))
            if max(walls) > 1:
                fail("speed", f"user {user or 'root'}", walls=walls)
        reading("100 processes")


@section(45)
def overhead():
    r = FRAME["torch loop"].wait(what="gated", timeout=20)
    r.go()
    r.wait(timeout=20)
    with alone(r):
        expect(r.pid(), "torch loop", C, run=r, contexts=1, never={"idle"})
        reading("torch loop")
        steps = lambda: int(open(r.gate + ".n").read() or 0)
        time.sleep(1)
        # stacks
        a, marks = steps(), []
        for args in ((str(r.pid()), "--stacks"), (str(r.pid()), "--stacks", "--json"), ("--stacks", "--json")):
            t = time.time()
            rc, out, err, wall = who(*args)
            marks.append((t, time.time()))
            hit = re.search(re.escape(os.path.basename(r.file)) + r":\d+", out) is not None
            with contextlib.suppress(ValueError):
                hit = "--json" not in args or any(os.path.basename(r.file) in (x or "") for x in find(json.loads(out), "user_line"))
            log("stacks", args=args, rc=rc, hit=hit, out=out[:9000], err=err[-400:], wall=wall)
            if not hit:
                fail("stacks", " ".join(args), rc=rc, names_script=hit, err=err[-300:], out=out[-500:])
            if rc not in (0, 1, 3):
                fail("exit code", "stacks", rc=rc)
        time.sleep(.5)
        after = [l for l in open(f"/proc/{r.pid()}/status") if l.startswith(("State", "TracerPid"))]
        if steps() <= a or state(r.pid()) in ("T", "t", "Z", None) or not any(l.split() == ["TracerPid:", "0"] for l in after):
            fail("stacks", "the loop does not go on", status=after, before=a, after=steps())
        note("stacks: loop went on from step %d to %d; %s" % (a, steps(), [l.strip() for l in after]))
        windows = []
        W.end()
        sink = open(DIR + "/watch.out", "w")
        for k in range(12 if END - time.time() > 34 else 6):
            is_on = k % 4 in (1, 2)   # off on, on off, off on: drift of the clock cancels
            t = time.time()
            p = subprocess.Popen([WHO, "who", "--watch", "1"], stdout=sink, stderr=sink, env={**os.environ, "HOLDERS": MARK}) if is_on else None
            time.sleep(2)
            if p:
                if p.poll() is not None:
                    fail("watch", "ended by itself", rc=p.returncode)
                p.send_signal(signal.SIGINT)
                try:
                    p.wait(3)
                except subprocess.TimeoutExpired:
                    fail("watch", "SIGINT does not end it")
                    p.kill(); p.wait()
                log("watch", rc=p.returncode)
            windows.append((is_on, t, t + 2))
        W.begin()
        open(r.gate + ".stop", "w").close()
        r.wait(what="done", timeout=10)
        at = json.load(open(r.gate + ".json"))
        rate = lambda b, e: sum(b <= x < e for x in at) / (e - b)
        rows = [(on, rate(b + .02, e)) for on, b, e in windows]
        ratios = []
        for i in range(0, len(rows) - 1, 2):
            pair = dict(rows[i:i + 2])
            ratios.append(pair[False] / pair[True])
        gaps = [y - x for x, y in zip(at, at[1:])]
        stack_gap = [round(max([y - x for x, y in zip(at, at[1:]) if y >= b and x <= e] or [0]) * 1000, 2) for b, e in marks]
        log("overhead", rows=rows, ratios=ratios, max_gap_ms=max(gaps) * 1000, stack_gap_ms=stack_gap)
        note("overhead: ratio without/with by pairs %s; median %.4f, geometric mean %.4f (goal <= 1.005); steps/s %s; longest step beside --stacks %s ms, median step %.3f ms" % (
            [round(x, 4) for x in ratios], statistics.median(ratios), statistics.geometric_mean(ratios), [round(x) for _, x in rows], stack_gap, statistics.median(gaps) * 1000))
        if statistics.geometric_mean(ratios) > 1.005:
            fail("overhead", "paired ratio", ratios=[round(x, 4) for x in ratios])


@section(15)
def finish():
    for r in FRAME.values():
        r.stop()
    settle()
    reading("at the end")


def cleanup():
    with contextlib.suppress(Exception):
        W.end()
    for r in RUNS:
        if r.p.poll() is None:
            kill(r.p.pid)
            with contextlib.suppress(Exception):
                r.p.wait(3)
    for _ in range(5):
        left = ours_alive()
        if not left:
            break
        for p in left:
            kill(p, signal.SIGKILL)
        time.sleep(.2)
    left = [p for p in ours_alive() if state(p) != "Z"]
    if left:
        note("left behind: " + str(left))
    shutil.rmtree(DIR, ignore_errors=True)


def summary(times):
    L = ["holders: %d programs of different kinds, %d GPUs, %.0f s" % (len(PROGRAMS), NGPU, time.time() - T0)]
    L.append("counts: " + json.dumps(dict(sorted(COUNT.items()))))
    for what, pick in (("exact, stable", lambda a: a["stable"]), ("beside short-lived processes", lambda a: a["volatile"]), ("all", lambda a: True)):
        rows = [a for a in ACCOUNT if pick(a)]
        if rows:
            known = [a["unowned"] for a in rows if a["unowned"] is not None]
            L.append("bytes, %s: %d GPU readings; sum exact in %d; unowned as expected (0..2 MiB if nothing is unowned) in %d (%.2f %%); most unowned %.3f MiB" % (
                what, len(rows), sum(a["exact"] for a in rows), sum(a["within"] for a in rows), 100 * sum(a["within"] for a in rows) / len(rows), max(known or [0]) / MIB))
    off = collections.Counter()
    for a in ACCOUNT:
        if a["stable"] and a["unowned"] is not None:
            off[round((a["used"] - a["listed"] - a["driver"]) / MIB, 2)] += 1
    L.append("used - listed - driver (MiB: readings): " + json.dumps(dict(sorted(off.items()))))
    for what in ("cuda", "context"):
        for exact in (True, False):
            rows = [s for s in SINCE.values() if s["what"] == what and s["exact"] == exact]
            diffs = sorted(s["diff_ms"] for s in rows if s["diff_ms"] is not None)
            if rows:
                ok = sum(abs(d) <= 50 for d in diffs)
                L.append("since %s, %s: %d processes, %d unknown, within 50 ms: %d (%.1f %%); ms: min %s, median %s, max %s" % (
                    what, "against the start of the call" if exact else "outside of a framework's call", len(rows), len(rows) - len(diffs), ok, 100 * ok / len(rows),
                    diffs[0] if diffs else "-", statistics.median(diffs) if diffs else "-", diffs[-1] if diffs else "-"))
            for s in rows:
                if s["diff_ms"] is None or abs(s["diff_ms"]) > 50:
                    L.append("  %s of %s: off by %s ms (call took %s ms)" % (what, s["label"], s["diff_ms"], s["took_ms"]))
    L += ["note: " + n for n in NOTES]
    L.append("sections: " + json.dumps(times))
    kinds = collections.Counter(k for k, _, _ in FAILS)
    L.append("FAILURES: %d %s" % (len(FAILS), json.dumps(dict(kinds))))
    seen = collections.Counter()
    for kind, tag, k in FAILS:
        key = (kind, tag)
        seen[key] += 1
        if seen[key] <= 2:
            L.append("  %s | %s | %s" % (kind, tag, json.dumps(k, default=str)[:900]))
    for (kind, tag), n in seen.items():
        if n > 2:
            L.append("  (%d times: %s | %s)" % (n, kind, tag))
    text = "\n".join(L) + "\n"
    open(os.path.join(OUT, "trial.txt"), "w").write(text)
    print(text)


def main():
    signal.signal(signal.SIGALRM, alarm)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    times = {}
    try:
        for name, limit, f in SECTIONS:
            if ONLY and name not in ONLY and name not in ("begin", "finish"):
                continue
            left = END - time.time()
            if left < 5:
                note("no time for " + name)
                continue
            t = time.time()
            signal.setitimer(signal.ITIMER_REAL, min(limit, left))
            try:
                f()
            except (Exception, Late) as e:
                fail("section", name, error=repr(e)[:600], where=traceback.format_exc()[-900:])
                with contextlib.suppress(Exception):
                    W.end()   # its pipe may hold half an answer
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            # whatever a section has left behind must not disturb the next one
            UNOWNED.clear()
            keep = {W.p.pid if W.p else 0, *(p for r in FRAME.values() for p in (r.p.pid, *children(r.p.pid)))} | ({NVCC.pid, *children(NVCC.pid)} if NVCC else set())
            for p in ours_alive():
                if p not in keep:
                    kill(p)
            for p in [p for p in EXPECT if p not in keep]:
                EXPECT.pop(p)
            with contextlib.suppress(Exception):
                W.begin()
            times[name] = round(time.time() - t, 1)
            log("section", name=name, seconds=times[name])
            print(f"[{time.time() - T0:6.1f}] {name}: {times[name]} s, {len(FAILS)} failures so far", flush=True)
    finally:
        cleanup()
        summary(times)


if __name__ == "__main__":
    main()
