"""Runs each case under `BINARY trace` and prints a line for each: run.sh BINARY OUT [PART OF A NAME]...

README.md says what the variables LAUNCHERS_TRACE, LAUNCHERS_GPUS and LAUNCHERS_SECONDS do.
"""
import glob
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# The names of rules that fit; those that explain a refused call have several.
RULES = {
    "stray": r"stray-context|context-on-every-gpu",
    "thread": r"thread-without-device",
    "shared": r"ranks-share-gpu",
    "order": r"parents-gpus-reordered",
    "misnamed": r"misspelt-variable",
    "fork": r"fork-after-init",
    "refused": r".*(refused|refusal|ordinal|invalid-device|invalid-context|current-context|counted|error|number).*|fork-after-init",
}
LONGEST = float(os.environ.get("LAUNCHERS_LONGEST", 45))
MOST_BYTES = 12 << 20


def gpus():
    found = int(os.environ.get("LAUNCHERS_GPUS", 0)) or len(glob.glob("/dev/nvidia[0-9]*"))
    return max(1, min(found, 8))


GPUS = gpus()
WORDS = {
    "python": sys.executable,
    "torchrun": shutil.which("torchrun", path=os.path.dirname(sys.executable) + ":" + os.environ.get("PATH", "")) or f"{sys.executable} -m torch.distributed.run",
    "gpus": str(GPUS),
    "more": str(GPUS + 1),
    "last": str(GPUS - 1),
    # The last GPU and another, the higher number first.
    "down": "1,0" if GPUS < 4 else "3,1",
    "up": "0,1" if GPUS < 4 else "1,3",
}


class Case:
    def __init__(self, file):
        self.file, self.name = file, os.path.basename(file).removesuffix(".py")
        number, self.launcher, self.rule, self.kind = self.name.split("-")
        with open(file) as lines:
            head = [re.match(r"# (run|needs|environment|exit): (.*)", line) for line in lines]
        self.says = {match[1]: match[2] for match in head if match}
        self.needs = self.says.get("needs", "").split()

    def words(self, text):
        words = dict(WORDS, file=self.file, folder=HERE, module=self.name)
        return re.sub(r"\{(\w+)\}", lambda match: words[match[1]], text)

    def command(self):
        return shlex.split(self.words(self.says.get("run", "{python} {file}")))

    def missing(self):
        if GPUS < 2:
            return "needs 2 GPUs"
        lost = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return "is not installed: " + ", ".join(lost) if lost else None


def environment(case, folder):
    ours = dict(os.environ)
    for name in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"]:
        ours.pop(name, None)
    paths = [os.path.join(HERE, "lib", "site-packages"), HERE, ours.get("PYTHONPATH", "")]
    # Multicast over NVLink stays off.
    ours.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")
    ours.update(LAUNCHERS_GPUS=str(GPUS), LAUNCHERS_MEET=os.path.join(folder, "meet"), TMPDIR=os.path.join(folder, "tmp"))
    ours.update(PYTHONPATH=":".join(filter(None, paths)), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    ours["PATH"] = os.path.dirname(sys.executable) + ":" + ours.get("PATH", "")
    for word in shlex.split(case.words(case.says.get("environment", ""))):
        name, _, value = word.partition("=")
        ours[name] = value
    return ours


def finish(child):
    """Ends what a case has left in its own process group."""
    for number in [signal.SIGTERM, signal.SIGKILL]:
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        time.sleep(0.5)


def run(case, binary):
    folder = tempfile.mkdtemp(prefix="launchers-")
    summary, text = os.path.join(folder, "summary.json"), os.path.join(folder, "text")
    os.makedirs(os.path.join(folder, "tmp"))
    command = [binary, "trace", *shlex.split(os.environ.get("LAUNCHERS_TRACE", "")), "--out", os.path.join(folder, "traces"), "--json", summary, "--"]
    began = time.monotonic()
    with open(text, "wb") as output:
        options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "start_new_session": True, "cwd": folder}
        child = subprocess.Popen(command + case.command(), env=environment(case, folder), **options)
        try:
            code = child.wait(LONGEST)
        except subprocess.TimeoutExpired:
            code = "late"
        finish(child)
        child.wait()
    return folder, code, time.monotonic() - began


def read(path, default=""):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return default


def headline(text):
    """The line that counts what was found, else the last one that speaks of it."""
    lines = [line.strip() for line in text.splitlines()]
    counted = [line for line in lines if re.match(r"(\d+ (pitfall|note)|no pitfall|CUDA was not initiali)", line)]
    spoken = [line for line in lines if re.search(r"pitfall", line)]
    return (counted or spoken or ["(none)"])[-1]


def judge(case, code, summary):
    """Whether the case went as it should, and why not."""
    rules = [finding["rule"] for finding in summary.get("findings", [])]
    found = any(re.fullmatch(RULES[case.rule], rule) for rule in rules)
    if case.rule == "refused":
        found = found or bool(summary.get("refused") or summary.get("last_error"))
    wants = case.says.get("exit", "0")
    ended = code != 0 if wants == "not 0" else str(code) == wants
    wrong = []
    if not summary:
        wrong.append("no summary")
    elif found != (case.kind == "fault"):
        wrong.append("not found" if case.kind == "fault" else "found, but nothing is wrong")
    if not ended:
        wrong.append(f"exit {code}, not {wants}")
    return ("no: " + ", ".join(wrong)) if wrong else "ok"


def keep(archive, case, folder, is_ok, room):
    files = [("json", os.path.join(folder, "summary.json")), ("txt", os.path.join(folder, "text"))]
    if not is_ok:
        files += [("ndjson", path) for path in glob.glob(os.path.join(folder, "traces", "*", "trace.ndjson"))[:1]]
    for suffix, path in files:
        body = read(path).encode()[: 2 << 20]
        if not body or len(body) > room:
            continue
        room -= len(body) // 4
        entry = tarfile.TarInfo(f"launchers/{case.name}.{suffix}")
        entry.size = len(body)
        archive.addfile(entry, io.BytesIO(body))
    return room


def main(binary, out, parts):
    binary = os.path.abspath(binary)
    os.makedirs(out, exist_ok=True)
    cases = [Case(file) for file in sorted(glob.glob(os.path.join(HERE, "[0-9]*-*-*-*.py")))]
    cases = [case for case in cases if not parts or any(part in case.name for part in parts)]
    until = time.monotonic() + float(os.environ.get("LAUNCHERS_SECONDS", 540))
    table = open(os.path.join(out, "launchers.tsv"), "w")

    def say(*columns):
        line = "\t".join(str(column) for column in columns)
        print(line, flush=True)
        table.write(line + "\n")
        table.flush()

    say("case", "expected", "findings", "headline", "exit", "seconds", "ok?")
    room, wrong = MOST_BYTES, 0
    with tarfile.open(os.path.join(out, "launchers.tar.gz"), "w:gz") as archive:
        for case in cases:
            expected = case.rule if case.kind == "fault" else "none"
            missing = case.missing() or ("no time left" if time.monotonic() > until else None)
            if missing:
                say(case.name, expected, "", "", "", "", "not run: " + missing)
                continue
            folder, code, seconds = run(case, binary)
            try:
                summary = json.loads(read(os.path.join(folder, "summary.json")) or "{}")
            except ValueError:
                summary = {}
            counts = {}
            for finding in summary.get("findings", []):
                name = finding["rule"] + ("" if finding["severity"] == "pitfall" else " (note)")
                counts[name] = counts.get(name, 0) + 1
            names = ", ".join(name if count == 1 else f"{count}× {name}" for name, count in counts.items())
            verdict = judge(case, code, summary)
            wrong += verdict != "ok"
            say(case.name, expected, names or "-", headline(read(os.path.join(folder, "text"))), code, f"{seconds:.1f}", verdict)
            room = keep(archive, case, folder, verdict == "ok", room)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{wrong} of {len(cases)} cases did not go as expected", file=sys.stderr)
    return wrong != 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: run.sh BINARY OUT [PART OF A NAME]...")
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
