# What another process may send to the socket of a trace: stranger.py MODE SOCKET. It says `ready` once it has begun, and goes on until its
# input ends.
#
# zero: a hello with a descriptor that has no end; silent: connections without a word;
# drip: a message that never ends; spoof: events that never happened.
import array
import json
import os
import select
import socket
import sys

mode, path = sys.argv[1:]


def connection():
    made = socket.socket(socket.AF_UNIX)
    made.connect(path)
    return made


def send(what, descriptor=None):
    message = dict(call="cuCtxCreate", number=1, t_ns=1, tid=1, pthread=1)
    message.update(what)
    data = (json.dumps(message) + "\n").encode()
    made = connection()
    beside = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    made.sendmsg([data], beside)
    return made


def attack():
    if mode == "silent":
        return [connection() for _ in range(20)]
    if mode == "drip":
        made = connection()
        made.send(b" ")
        return [made]
    if mode == "zero":
        return [send(dict(kind="hello", call=""), os.open("/dev/zero", os.O_RDONLY))]
    return [
        send(dict(event="init", call="cuInit", witness="injection", variables={"CUDA_VISIBLE_DEVICES": "spoofed"})),
        send(dict(event="variable", call="setenv", name="CUDA_VISIBLE_DEVICES", before=None, value="spoofed", status=0)),
    ]


held, ready = [], False
while not select.select([sys.stdin], [], [], 0.01)[0]:
    try:
        held = (held + attack())[-200:]
    except OSError:
        held = []
    if not ready:
        ready = True
        print("ready", flush=True)
