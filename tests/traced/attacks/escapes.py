# A program whose CUDA work is done where the trace may not see it, or that does none: the first argument says which.
# Work that is to be found by a look goes on for a moment, as that of a real driver does.
import ctypes
import os
import signal
import subprocess
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
own_folder = os.environ.get("CUDA_PITFALLS_TRACED", "/")
folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
libraries = [folder + "/libcuda.so.1" for folder in folders if os.path.exists(folder + "/libcuda.so.1")]
# The first is the trace's own, the second the driver's.
driver = libraries[1] if len(libraries) > 1 else "libcuda.so.1"


def init(library="libcuda.so.1", lasting=0.0):
    ctypes.CDLL(library).cuInit(0)
    time.sleep(lasting)


def again(mode, *arguments, **options):
    return [sys.executable, "-S", __file__, mode, *arguments]


def daemon(work):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.3)
            work()
            os._exit(0)
        os._exit(0)
    os.wait()


def unshared(flags):
    assert libc.unshare(flags) == 0, os.strerror(ctypes.get_errno())


def hidden_folder():
    unshared(0x00020000)  # CLONE_NEWNS
    libc.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
    assert libc.mount(b"none", own_folder.encode(), b"tmpfs", 0, None) == 0, os.strerror(ctypes.get_errno())


def raw_exec(arguments):
    words = (ctypes.c_char_p * (len(arguments) + 1))(*[word.encode() for word in arguments], None)
    libc.syscall(59 if os.uname().machine == "x86_64" else 221, arguments[0].encode(), words, (ctypes.c_char_p * 1)(None))


def forked(work):
    if os.fork() == 0:
        work()
        os._exit(0)
    os.wait()


def full():
    library = ctypes.CDLL("libcuda.so.1")
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    library.cuInit(0)


def in_empty_root():
    library = ctypes.CDLL("libcuda.so.1")
    os.makedirs("empty", exist_ok=True)
    os.chroot("empty")
    library.cuInit(0)


def hop(times, work):
    # Each process ends before a look at all of them can have it.
    for _ in range(times):
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
    work()


def held():
    # The tracer cannot look while the child runs.
    time.sleep(0.3)
    os.kill(os.getppid(), signal.SIGSTOP)
    null = os.open(os.devnull, os.O_WRONLY)
    forked(lambda: (os.dup2(null, 1), raw_exec(["/bin/cat", driver])))
    os.kill(os.getppid(), signal.SIGCONT)
    time.sleep(0.5)


mode, *rest = sys.argv[1:]
{
    "init": lambda: init(*rest),
    "lasts": lambda: init(rest[0], 0.5),
    "background": lambda: subprocess.Popen(again("delayed"), start_new_session=True),
    "delayed": lambda: (time.sleep(0.3), init()),
    "daemon": lambda: daemon(init),
    "waits": lambda: subprocess.Popen(["sleep", "30"]),
    "cleared": lambda: subprocess.call(again("lasts", driver), env={}),
    "raw": lambda: forked(lambda: raw_exec(again("lasts", driver))),
    "short": lambda: subprocess.call(again("init", driver), env={}),
    "reads": lambda: subprocess.call(again("holds", driver), env={}),
    "holds": lambda: (open(rest[0]), time.sleep(0.5)),
    "hops": lambda: hop(200, init),
    "held": held,
    "hidden": lambda: (ctypes.CDLL("libcuda.so.1"), hidden_folder(), init()),
    "hidden-exec": lambda: (hidden_folder(), subprocess.call(["true"])),
    "root": in_empty_root,
    "full": full,
    "nothing": lambda: subprocess.call(["true"], env={}),
    "sleeper": lambda: subprocess.Popen(["sleep", "0.2"], start_new_session=True),
    "quiet-daemon": lambda: daemon(lambda: None),
    "spaces": lambda: (unshared(0x00020000), subprocess.call(["true"])),
}[mode]()
