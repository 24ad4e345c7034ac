# A program that forbids itself to make a socket, on pain of death, and then writes a variable and starts another program.
import ctypes
import os
import struct
import subprocess

LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
SOCKET, KILL, ALLOW = 41, 0x80000000, 0x7FFF0000
code = b"".join(
    struct.pack("HBBI", *one)
    for one in [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, SOCKET), (RETURN, 0, 0, KILL), (RETURN, 0, 0, ALLOW)]
)
kept = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(kept)), 16)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
print("child", subprocess.call(["true"], env={}))
