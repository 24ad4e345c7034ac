"""Starts programs with a known fault, and asks `who PID` about each.

usage: python3 processes.py CUDA_PITFALLS OUT.json [ATTEMPTS]

It needs two GPUs and root (another user looks too). The programs call libcuda by ctypes, and are asked while they work.
"""

import json
import os
import glob
import subprocess
import sys

START = """
import ctypes, os, sys, time
cu = ctypes.CDLL("libcuda.so.1")
# Where only a debugger may read memory (yama), this process lets everybody.
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
context, address = ctypes.c_void_p(), ctypes.c_uint64()

def init():
    assert cu.cuInit(0) == 0

def on(gpu):
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu) == 0
    assert cu.cuCtxSetCurrent(context) == 0

def work():
    assert cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(256 << 20)) == 0
    print("ready", flush=True)
    while True:
        for _ in range(64):
            cu.cuMemsetD8_v2(address, 1, ctypes.c_size_t(256 << 20))
        cu.cuCtxSynchronize()

def rest():
    print("ready", flush=True)
    time.sleep(600)
"""

PROGRAMS = {
    # Name: the program, its variables, what the findings must be, and how `who` ends.
    "works": ("init(); on(0); work()", {}, {"late": False, "stray": [], "twice": 0, "opened": 2}, 0),
    "masked": ("init(); on(0); work()", {"CUDA_VISIBLE_DEVICES": "1"},
               {"late": False, "stray": [], "twice": 0, "opened": 1}, 0),
    "masked-by-itself": ("os.environ['CUDA_VISIBLE_DEVICES'] = '1'; init(); on(0); work()", {},
                         {"late": False, "stray": [], "twice": 0, "opened": 1, "now": "1"}, 0),
    "not-started": ("rest()", {}, {"late": False, "stray": [], "twice": 0, "opened": 0}, 0),
    "mask-too-late": ("init(); os.environ['CUDA_VISIBLE_DEVICES'] = '1'; on(0); work()", {},
                      {"late": True, "stray": [], "twice": 0, "opened": 2, "now": "1"}, 1),
    "stray-context": ("init(); on(0); on(1); work()", {}, {"late": False, "stray": [0], "twice": 0, "opened": 2}, 1),
    "two-libcudas": ("init(); on(0); ctypes.CDLL(sys.argv[1]); work()", {},
                     {"late": False, "stray": [], "twice": 2, "opened": 2}, 1),
    "another-user": ("init(); on(0); work()", {}, None, 3),
}


def findings_in(document):
    holders = document.get("holders") or [{}]
    return holders[0].get("findings") or {}


def found(document):
    findings = findings_in(document)
    opened, mask = findings.get("opened"), findings.get("mask") or {}
    named = mask.get("now")
    is_late = mask.get("is_now_known") and mask.get("now") != mask.get("at_start") and bool(opened) and named is not None
    return {
        "late": bool(is_late and len(opened) > len([entry for entry in named.split(",") if entry.strip()])),
        "stray": [stray["index"] for stray in findings.get("idle", []) if stray["is_busy_elsewhere"]],
        "twice": len(findings.get("twice", [])),
        "opened": None if opened is None else len(opened),
        "now": named,
    }


def main():
    program_under_test, out = sys.argv[1], sys.argv[2]
    attempts = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    other = sorted(glob.glob("/usr/local/cuda*/compat/libcuda.so.*.*"))
    rows = []
    for name, (program, variables, expected, code) in PROGRAMS.items():
        if name == "two-libcudas" and not other:
            continue
        for attempt in range(attempts):
            child = subprocess.Popen(
                [sys.executable, "-c", START + program, *other[:1]], env={**os.environ, **variables},
                stdout=subprocess.PIPE, text=True,
            )
            ready = child.stdout.readline().strip()
            user = {"user": 65534, "group": 65534, "extra_groups": []} if name == "another-user" else {}
            ran = subprocess.run(
                [program_under_test, "who", "--json", str(child.pid)], capture_output=True, text=True, **user
            )
            text = subprocess.run([program_under_test, "who", str(child.pid)], capture_output=True, text=True)
            is_alive = child.poll() is None
            child.kill()
            child.wait()
            document = json.loads(ran.stdout)
            seen = found(document)
            is_found = ready == "ready" and is_alive and ran.returncode == code and (
                expected is None or all(seen[key] == value for key, value in expected.items())
            )
            rows.append({
                "program": name, "attempt": attempt, "is_found": is_found, "exit": ran.returncode, "seen": seen,
                "is_alive": is_alive, "findings": findings_in(document), "stderr": ran.stderr[-300:],
            })
            print(name, attempt, "as expected" if is_found else "NOT", seen, ran.returncode, flush=True)
            if attempt == 0:
                print(text.stdout, flush=True)
    document = {"rows": rows, "found": sum(row["is_found"] for row in rows), "asked": len(rows)}
    with open(out, "w") as file:
        json.dump(document, file, indent=1)
    print(document["found"], "of", document["asked"])


if __name__ == "__main__":
    main()
