# Tells its own trace what no library of it would: lies.py WAY.
#
# page: a page on which everything is as large as can be, holders of all rows, peaks and ends in any number; gone: a page that it
# closes, a holder of a row that it never had, and the end of calls that did not begin.
import array
import ctypes
import json
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driver  # noqa: E402

DEVICES, ROWS = 64, 4096
BYTES = (DEVICES * 6 + ROWS * 2) * 8
F_ADD_SEALS, SHRINK, GROW = 1033, 2, 4


def send(what, descriptor=None):
    message = dict(call="cuMemAlloc_v2", number=1, t_ns=1, tid=os.getpid(), pthread=1, device=0, uuid=UUID)
    message.update(what)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(os.environ["CUDA_PITFALLS_TRACED"], "socket"))
    beside = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    connection.sendmsg([(json.dumps(message) + "\n").encode()], beside)
    # As long as the tracer looks.
    connection.recv(1)


def page(fill):
    import fcntl

    descriptor = os.memfd_create("page", os.MFD_ALLOW_SEALING)
    os.write(descriptor, fill * (BYTES // len(fill)))
    fcntl.fcntl(descriptor, F_ADD_SEALS, SHRINK | GROW)
    return descriptor


cuda = driver.Driver()
cuda.cuInit(0)
identity = (ctypes.c_ubyte * 16)()
cuda.cuDeviceGetUuid_v2(identity, 0)
UUID = bytes(identity).hex()
if sys.argv[1] == "page":
    for fill in [b"\xff", b"\x7f", b"\x00\x00\x00\x00\x00\x80\x00\x00", b"\x00"]:
        send(dict(kind="ledger", devices=DEVICES, rows=ROWS), page(fill))
        for row in range(50):
            send(dict(kind="holder", row=row, memory="managed", t_ns=(1 << 63) - 1))
            send(dict(kind="peak", call=""))
        for number in range(10):
            send(dict(kind="before", number=number))
            send(dict(kind="after", number=number, frames=[1, 2, 3]))
        send(dict(kind="leaving", call="exit"))
else:
    for row in [0, ROWS - DEVICES - 1]:
        send(dict(kind="holder", row=row, memory="pool"))
    send(dict(kind="ledger", devices=DEVICES, rows=ROWS))
    descriptor = page(b"\x00")
    send(dict(kind="ledger", devices=DEVICES, rows=ROWS), descriptor)
    os.close(descriptor)
    for number in range(1000, 1010):
        send(dict(kind="after", number=number, frames=[1]))
    send(dict(kind="peak", device=63, uuid="00" * 16))
print("told")
