"""Traces each program with --memory beside a reader of NVML, and compares what both saw: see README.md."""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
MIB, MOST_OFF = 1 << 20, 2 << 20
# Programs up to this number use one GPU.
LAST_OF_ONE_GPU = 24
# What a summary's ledger has today; any other text in it is taken as a reason why something is not known.
WORDS = {"pid", "index", "gpu", "own", "peak", "end", "asked", "after_ns", "charged_bytes", "rows", "others_bytes", "unattributed_bytes"}
COLUMNS = ["program", "pid", "gpu", "reader", "ledger", "rows", "unattributed", "at_end", "verdict", "note"]
printing = threading.Lock()


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="so many programs, each with a trace of its own, on the same GPUs")
    parser.add_argument("--spread", action="store_true", help="programs of one GPU run side by side, each on a GPU of its own")
    parser.add_argument("--seconds", type=float, default=1e8, metavar="S", help="start no program after so many seconds")
    parser.add_argument("--grace", type=float, default=80, metavar="S", help="end so many seconds after --seconds, whatever still runs")
    parser.add_argument("--on", metavar="SIM", help="a simulated machine; there is no second reader then")
    parser.add_argument("binary")
    parser.add_argument("out")
    parser.add_argument("only", nargs="*", help="numbers or parts of names")
    return parser.parse_args()


def programs(only):
    found = sorted(path for path in glob.glob(os.path.join(HERE, "[0-9][0-9]-*.*")) if path.endswith((".py", ".c", ".cu")))
    names = [(os.path.basename(path).rsplit(".", 1)[0], path) for path in found]
    wanted = lambda name: any(int(name[:2]) == int(part) if part.isdigit() else part in name for part in only)
    return [(name, path) for name, path in names if not only or wanted(name)]


class Builds:
    """The C programs, compiled side by side while the others run."""

    def __init__(self, chosen, folder):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        self.running = {}
        for name, path in chosen:
            if path.endswith(".py"):
                continue
            out = os.path.join(folder, name)
            command = [nvcc, "-O1", "-arch=native", "-o", out, path, "-lcuda", "-lpthread"]
            try:
                self.running[name] = out, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            except OSError as error:
                self.running[name] = None, str(error)

    def command(self, name, path):
        """What starts a program, or what the compiler says."""
        if path.endswith(".py"):
            return ["python3", path], ""
        out, process = self.running[name]
        if out is None:
            return None, process
        try:
            said = process.communicate(timeout=90)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = "the compiler took longer than 90 s"
        return (None, said) if process.returncode != 0 else ([out], "")


def end_what_is_left(tag):
    """Processes of a program that outlived it."""
    left, mark = [], f"LEDGER_TAG={tag}".encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark in file.read().split(b"\0"):
                    left.append(int(path.split("/")[2]))
                    os.kill(left[-1], signal.SIGKILL)
        except OSError:
            pass
    return left


def texts(value):
    """The texts under words that a ledger does not have today."""
    if not isinstance(value, dict):
        return []
    new = [text for word, text in value.items() if word not in WORDS and text]
    flat = [part for text in new for part in (text if isinstance(text, list) else [text])]
    return [part if isinstance(part, str) else json.dumps(part) for part in flat if part is not True and not isinstance(part, (int, float))]


def mib(size):
    return "-" if size is None else f"{size / MIB:.1f}".removesuffix(".0")


def judged(name, peak, ledgers, summary):
    """One row: what the reader saw of a process on a GPU (or nothing), and its ledgers."""
    pid, gpu = peak["pid"], peak["index"]
    about = [text for text in summary.get("not_seen", []) + summary.get("undecided", []) if re.search(rf"\b{pid}\b", text)]
    reader = peak["bytes"] if peak["bytes"] >= 0 else None
    if not ledgers:
        verdict = "said" if about else "missing"
        return [name, pid, gpu, mib(reader), "-", "-", "-", "-", verdict, "; ".join(about)[:160] or peak.get("command", "")[-60:]]
    ledger = max(ledgers, key=lambda ledger: ledger["peak"]["charged_bytes"] or 0)
    table, end = ledger["peak"], ledger["end"]
    rows = sum(row["bytes"] for row in table["rows"])
    charged, rest = table["charged_bytes"], table["unattributed_bytes"]
    said = about + texts(ledger) + texts(table)
    notes = []
    if len(ledgers) > 1:
        notes.append(f"{len(ledgers)} ledgers")
    if not ledger["own"]:
        notes.append("of the whole GPU")
    if "mps" in peak.get("lists", []):
        notes.append("a client of MPS")
    if reader is None:
        notes.append("the reader saw nothing")
    elif charged is not None and reader - charged > MOST_OFF:
        notes.append(f"the ledger's peak is {mib(reader - charged)} too low")
    elif charged is not None and charged - reader > MOST_OFF:
        notes.append(f"the reader is {mib(charged - reader)} below the ledger")
    known = None not in (reader, charged, rest)
    is_exact = known and all(abs(one["peak"]["unattributed_bytes"] or 0) <= MOST_OFF for one in ledgers) and abs(reader - charged) <= MOST_OFF
    verdict = "exact" if is_exact else "said" if said else "unread" if reader is None else "off"
    notes += [text[:120] for text in said]
    return [name, pid, gpu, mib(reader), mib(charged), mib(rows), mib(rest), mib(end["unattributed_bytes"]), verdict, "; ".join(notes)]


class Runs:
    def __init__(self, options):
        self.options = options
        self.binary = os.path.abspath(options.binary)
        self.out = os.path.abspath(options.out)
        self.work = tempfile.mkdtemp(prefix="ledger40-")
        self.began = time.monotonic()
        self.now = set()
        self.rows, self.failed, self.kept, self.readings, self.left_out = [], {}, {}, {}, []
        os.makedirs(self.out, exist_ok=True)

    def one(self, name, path, gpu=None):
        try:
            self.now.add(name)
            self.trace(name, path, gpu)
        except Exception:
            self.failed[name] = "the harness: " + traceback.format_exc()
            print(f"# {name}: the harness failed", flush=True)
        finally:
            self.now.discard(name)

    def trace(self, name, path, gpu):
        if time.monotonic() - self.began > self.options.seconds:
            self.left_out.append(name)
            return
        command, said = self.builds.command(name, path)
        if command is None:
            self.failed[name] = "not built: " + said[-1500:]
            print(f"# {name}: not built", flush=True)
            return
        folder, tag = os.path.join(self.work, name + ".d"), f"{name}.{os.getpid()}"
        os.makedirs(folder)
        environment = dict(os.environ, LEDGER_TAG=tag)
        if gpu is not None:
            environment.update(CUDA_VISIBLE_DEVICES=str(gpu), LEDGER_GPUS="1")
        reading, read = os.path.join(folder, "reading.json"), None
        if not self.options.on:
            read = subprocess.Popen([sys.executable, os.path.join(HERE, "reader.py"), reading])
            until = time.monotonic() + 15
            while not os.path.exists(reading + ".ready") and read.poll() is None and time.monotonic() < until:
                time.sleep(.01)
        summary = os.path.join(folder, "summary.json")
        simulated = ["--on", self.options.on] if self.options.on else []
        trace = [self.binary, "trace", "--memory", *simulated, "--out", folder, "--json", summary, "--", *command]
        started = time.monotonic()
        with open(os.path.join(folder, "output.txt"), "w") as output:
            process = subprocess.Popen(trace, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment)
            try:
                code = process.wait(75)
            except subprocess.TimeoutExpired:
                process.kill()
                code = f"longer than 75 s ({process.wait()})"
        took = time.monotonic() - started
        if read:
            read.terminate()
            try:
                read.wait(15)
            except subprocess.TimeoutExpired:
                read.kill()
        left = end_what_is_left(tag)
        self.compare(name, folder, tag, code, took, left)

    def compare(self, name, folder, tag, code, took, left):
        load = lambda file: json.load(open(os.path.join(folder, file))) if os.path.exists(os.path.join(folder, file)) else {}
        reading, summary = load("reading.json"), load("summary.json")
        processes, peaks, ledgers, rows = reading.get("processes", {}), {}, {}, []
        for peak in reading.get("peaks", []):
            about = processes.get(str(peak["pid"]), {})
            # Of what is listed with no memory nothing is asked.
            if about.get("tag") == tag and peak["bytes"] > MOST_OFF:
                peaks[peak["pid"], peak["gpu"]] = dict(peak, command=about["command"])
        for ledger in summary.get("ledgers", []):
            of = ledger["pid"], ledger["gpu"]
            ledgers.setdefault(of, []).append(ledger)
            # Also a process that the reader saw and could not ask for its tag.
            seen = next((peak for peak in reading.get("peaks", []) if (peak["pid"], peak["gpu"]) == of), None)
            peaks.setdefault(of, seen or {"pid": of[0], "index": ledger["index"], "gpu": of[1], "bytes": -1})
        for of, peak in sorted(peaks.items(), key=lambda item: (item[0][0], item[1]["index"])):
            rows.append(judged(name, peak, ledgers.get(of, []), summary))
        strange = [pid for pid, about in processes.items() if not about["in_proc"]]
        with open(os.path.join(folder, "output.txt"), errors="replace") as file:
            output = file.read()
        if code != 0 or not summary:
            # What the program itself printed comes before what the trace says.
            self.failed[name] = f"ended with {code} after {took:.1f} s\n" + output[:2500]
        with printing:
            for row in rows or [[name, "-", "-", "-", "-", "-", "-", "-", "none", "no process with memory"]]:
                print("\t".join(map(str, row)), flush=True)
            every = max(reading.get("every_ms", {"": 0}).values(), default=0)
            remarks = [f"took {took:.1f} s", f"read every {every} ms"]
            if code != 0:
                remarks.append(f"ended with {code}")
            if left:
                remarks.append(f"processes were left and ended: {left}")
            if strange:
                remarks.append(f"NVML lists PIDs that were not in /proc: {strange[:5]}")
            print(f"# {name}: " + ", ".join(remarks), flush=True)
        self.rows += rows
        self.readings[name] = {"code": code, "seconds": round(took, 1), **reading}
        documents = glob.glob(os.path.join(folder, "*", "trace.ndjson"))
        if documents and any(row[8] in ("off", "missing", "said", "unread") for row in rows):
            self.kept[name] = documents[0]

    def pack(self):
        """The documents of what is not exact, in at most five archives."""
        part, archive, room, number = None, None, 0, 0
        for name, document in sorted(self.kept.items(), key=lambda item: os.path.getsize(item[1])):
            size = os.path.getsize(document)
            # Text like this shrinks to an eighth and less.
            if archive is None or room < size / 8:
                if archive:
                    archive.close()
                    if number == 5:
                        archive = None
                        break
                number += 1
                part = os.path.join(self.out, f"traces-{number}.tar.gz")
                archive, room = tarfile.open(part, "w:gz"), 15 << 20
            archive.add(document, f"{name}.ndjson")
            room -= size / 8
        if archive:
            archive.close()

    def all(self):
        options, chosen = self.options, programs(self.options.only)
        print("\t".join(COLUMNS), flush=True)
        # Whatever hangs then, what was found is written.
        threading.Thread(target=self.guard, daemon=True).start()
        self.builds = Builds(chosen, self.work)
        count = len(glob.glob("/dev/nvidia[0-9]*")) or 1
        number = lambda name: int(name[:2])
        # MPS stands alone, at the end: while its daemon runs, nothing else shall start.
        last = [of for of in chosen if number(of[0]) == 40]
        rest = [of for of in chosen if number(of[0]) != 40]
        if options.spread:
            ones, rest = [of for of in rest if number(of[0]) <= LAST_OF_ONE_GPU], [of for of in rest if number(of[0]) > LAST_OF_ONE_GPU]
            free = list(range(count))

            def on_its_own(of):
                gpu = free.pop()
                try:
                    self.one(*of, gpu)
                finally:
                    free.append(gpu)

            with concurrent.futures.ThreadPoolExecutor(count) as pool:
                list(pool.map(on_its_own, ones))
        with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
            list(pool.map(lambda of: self.one(*of), rest))
        for of in last:
            self.one(*of)
        self.finish(len(chosen))

    def guard(self):
        time.sleep(min(self.options.seconds + self.options.grace, threading.TIMEOUT_MAX))
        print("# the time is over", flush=True)
        self.failed.update({name: "it still ran when the time was over" for name in self.now})
        try:
            self.finish(len(programs(self.options.only)))
        finally:
            os._exit(1)

    def finish(self, chosen):
        verdicts = {}
        for row in self.rows:
            verdicts[row[8]] = verdicts.get(row[8], 0) + 1
        bad = sorted({row[0][:2] for row in self.rows if row[8] in ("off", "missing", "unread")})
        counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        took = time.monotonic() - self.began
        summary = f"# {chosen - len(self.left_out)} programs, {len(self.rows)} pairs of process and GPU: {counts}; not exact in {' '.join(bad) or 'none'}; failed by themselves: {' '.join(sorted(self.failed)) or 'none'}; {took:.0f} s"
        if self.left_out:
            summary += f"; not started: {' '.join(self.left_out)}"
        print(summary, flush=True)
        with open(os.path.join(self.out, "table.tsv"), "w") as file:
            file.write("\n".join("\t".join(map(str, row)) for row in [COLUMNS, *sorted(self.rows, key=lambda row: row[0])]) + "\n" + summary + "\n")
        with open(os.path.join(self.out, "readings.json"), "w") as file:
            json.dump(self.readings, file)
        if self.failed:
            with open(os.path.join(self.out, "failed.txt"), "w") as file:
                file.write("\n".join(f"==== {name}\n{text}\n" for name, text in sorted(self.failed.items())))
        self.pack()
        shutil.rmtree(self.work, ignore_errors=True)
        sys.exit(1 if bad or self.failed else 0)


Runs(arguments()).all()
