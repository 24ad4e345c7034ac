"""Reads from NVML, beside whatever else runs, what each process has on each GPU, and keeps the most: reader.py OUT.

It uses libnvidia-ml.so.1 and nothing else. It reads every 5 ms until SIGTERM, and then writes OUT: for each PID and GPU the peak in
bytes, when it was first and last read (CLOCK_MONOTONIC, ns) and how often it was read; and for each PID its command, its parents and
the word that LEDGER_TAG had in its environment, by which processes of several programs are told apart.
"""
import ctypes
import json
import os
import signal
import sys
import threading
import time

EVERY = 0.005
NOT_AVAILABLE = (1 << 64) - 1


class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint), ("instance", ctypes.c_uint)]


LISTS = {"compute": "nvmlDeviceGetComputeRunningProcesses_v3", "mps": "nvmlDeviceGetMPSComputeRunningProcesses_v3"}
ROOM = 256
lock, ended = threading.Lock(), threading.Event()
peaks, known, statuses, passes = {}, {}, {}, {}


def asked(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def about(pid):
    """What /proc says of a process when it is first seen."""
    words = [word.decode(errors="replace") for word in asked(f"/proc/{pid}/cmdline").split(b"\0") if word]
    tags = [word[11:].decode() for word in asked(f"/proc/{pid}/environ").split(b"\0") if word.startswith(b"LEDGER_TAG=")]
    parents, now = [], pid
    while now > 1 and len(parents) < 20:
        after = asked(f"/proc/{now}/stat").rpartition(b")")[2].split()
        if len(after) < 2:
            break
        now = int(after[1])
        parents.append(now)
    return {"command": " ".join(words)[:160], "tag": tags[0] if tags else None, "parents": parents, "in_proc": bool(words or parents)}


def watch(nvml, handle, gpu, uuid):
    array, count, before = (Process * ROOM)(), ctypes.c_uint(), {}
    calls = {name: getattr(nvml, function, None) for name, function in LISTS.items()}
    while not ended.is_set():
        began = time.monotonic()
        for name, call in calls.items():
            if call is None:
                continue
            count.value = ROOM
            status = call(handle, ctypes.byref(count), array)
            now = time.monotonic_ns()
            if status:
                with lock:
                    statuses[f"{name} {status}"] = statuses.get(f"{name} {status}", 0) + 1
                continue
            for at in range(count.value):
                pid, size = array[at].pid, array[at].bytes
                if size == NOT_AVAILABLE:
                    size = 0
                if pid not in known:
                    with lock:
                        known[pid] = about(pid)
                with lock:
                    peak = peaks.setdefault((pid, uuid), {"pid": pid, "index": gpu, "gpu": uuid, "bytes": -1, "first_ns": now, "readings": 0, "lists": []})
                    if size > peak["bytes"]:
                        peak.update(bytes=size, peak_ns=now)
                    peak["last_ns"], peak["readings"] = now, peak["readings"] + 1
                    if name not in peak["lists"]:
                        peak["lists"].append(name)
        passes[uuid] = passes.get(uuid, 0) + 1
        ended.wait(max(0.0, EVERY - (time.monotonic() - began)))


def main(out):
    nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
    status = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if status:
        sys.exit(f"NVML: status {status}")
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    threads, began = [], time.monotonic()
    for gpu in range(count.value):
        handle, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        status = nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(handle)) or nvml.nvmlDeviceGetUUID(handle, uuid, 96)
        if status:
            sys.exit(f"NVML: status {status} of GPU {gpu}")
        threads.append(threading.Thread(target=watch, args=(nvml, handle, gpu, uuid.value.decode())))
    for thread in threads:
        thread.start()
    # Whoever started this may go on.
    with open(out + ".ready", "w"):
        pass
    ended.wait()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    every = {uuid: round(1000 * took / number, 2) for uuid, number in passes.items()}
    found = {"every_ms": every, "statuses": statuses, "processes": {str(pid): what for pid, what in known.items()}, "peaks": list(peaks.values())}
    with open(out, "w") as file:
        json.dump(found, file, indent=1)


main(sys.argv[1])
