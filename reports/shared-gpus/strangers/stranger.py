#!/usr/bin/env python3
"""Somebody else on a GPU, at random.

    stranger.py MODE SECONDS LOG [SEED]
      memory     a context; 64 KiB to 200 MiB come and go, at most 240 MiB together; streams; managed memory up to 8 MiB
      small      a context; 2 MiB at a time up to 40 MiB, then back; streams one by one
      processes  processes that start, take nothing, a context or memory, and exit or are killed; at most two at once
      init       processes that only call cuInit

CUDA_VISIBLE_DEVICES says where. Times of calm (6 to 16 s) and of work (3 to 8 s) follow one another, so that a run is now
calibrated in calm and disturbed later, now met in the middle of work. Prints `ready`. Each act is a line of LOG, with its
time (CLOCK_MONOTONIC, ns) and status; a call that fails ends nothing.
"""
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time

MIB = 1 << 20
LARGEST, ALL, MANAGED = 200 * MIB, 240 * MIB, 8 * MIB


class Stranger:
    def __init__(self, seconds, log, seed):
        self.end = time.monotonic() + seconds
        self.log = open(log, "a", buffering=1)
        self.random = random.Random(seed)
        self.cuda = None
        self.held, self.streams = [], []

    def note(self, act, *what):
        self.log.write(json.dumps([time.monotonic_ns(), os.getpid(), act, *what]) + "\n")

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status:
            self.note("failed", name, status)
        return status

    def context(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.note("context")

    def take(self, size, managed=False):
        pointer = ctypes.c_void_p()
        if managed:
            status = self.call("cuMemAllocManaged", ctypes.byref(pointer), ctypes.c_size_t(size), 1)
            status = status or self.call("cuMemsetD8_v2", pointer, 1, ctypes.c_size_t(size))
        else:
            status = self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        if pointer.value:
            self.held.append((pointer, size))
        self.note("took", size, managed, status)

    def give(self, place):
        pointer, size = self.held.pop(place)
        self.note("gave", size, self.call("cuMemFree_v2", pointer))

    def stream(self):
        if self.streams and self.random.random() < 0.5:
            self.note("stream ended", self.call("cuStreamDestroy_v2", self.streams.pop()))
        elif len(self.streams) < 40:
            stream = ctypes.c_void_p()
            if self.call("cuStreamCreate", ctypes.byref(stream), 0) == 0:
                self.streams.append(stream)
                self.note("stream")

    def sleep(self, mean):
        time.sleep(max(0.0, min(self.random.expovariate(1 / mean), 5.0, self.end - time.monotonic())))

    def phases(self):
        """Yields while there is work to do; sleeps between."""
        while time.monotonic() < self.end:
            until = min(self.end, time.monotonic() + self.random.uniform(3, 8))
            mean = self.random.choice([0.02, 0.1, 0.3, 0.8])
            self.note("work", mean)
            while time.monotonic() < until:
                yield
                self.sleep(mean)
            # Half of the times of calm find somebody who holds something.
            if self.random.random() < 0.5:
                while self.held:
                    self.give(0)
            self.note("calm", sum(size for _, size in self.held))
            time.sleep(max(0.0, min(self.random.uniform(6, 16), self.end - time.monotonic())))

    def memory(self):
        for _ in self.phases():
            kind = self.random.random()
            if kind < 0.15:
                self.stream()
            elif self.held and (kind < 0.5 or sum(size for _, size in self.held) > ALL - LARGEST):
                self.give(self.random.randrange(len(self.held)))
            elif kind < 0.6:
                self.take(int(self.random.uniform(1, MANAGED)), managed=True)
            else:
                self.take(int(64 * 1024 * (LARGEST / 65536) ** self.random.random()))

    def small(self):
        for _ in self.phases():
            if self.random.random() < 0.2:
                self.stream()
            elif sum(size for _, size in self.held) >= 40 * MIB or (self.held and self.random.random() < 0.2):
                while self.held:
                    self.give(0)
            else:
                self.take(2 * MIB)

    def processes(self, kinds):
        alive = []
        for _ in self.phases():
            alive = [child for child in alive if child.poll() is None]
            if len(alive) < 2:
                kind, stay = self.random.choice(kinds), min(self.random.expovariate(2), 3.0)
                command = [sys.executable, os.path.abspath(__file__), "child-" + kind, str(stay), self.log.name]
                alive.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
                self.note("started", kind, alive[-1].pid, stay)
            elif self.random.random() < 0.2:
                alive[0].send_signal(signal.SIGKILL)
                self.note("killed", alive[0].pid)
        for child in alive:
            child.kill()
            child.wait()

    def child(self, kind, stay):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        if kind == "init":
            self.note("cuInit", self.call("cuInit", 0))
        else:
            self.context()
            if kind == "memory":
                self.take(self.random.randrange(1, 100) * MIB)
        time.sleep(stay)
        self.note("leaves")


def main():
    mode, seconds, log = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    stranger = Stranger(seconds, log, sys.argv[4] if len(sys.argv) > 4 else os.getpid())
    if mode.startswith("child-"):
        return stranger.child(mode[6:], seconds)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if mode in ("memory", "small"):
        stranger.context()
        print("ready", flush=True)
        getattr(stranger, mode)()
    else:
        print("ready", flush=True)
        stranger.processes(["init"] if mode == "init" else ["init", "context", "context", "memory"])
    stranger.note("end")


main()
