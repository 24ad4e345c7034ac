"""What the programs share: a deadline, a time for which they work, and lines for judge.py."""
import faulthandler
import json
import os
import time

MIB = 1 << 20


def deadline(seconds=50):
    """Ends this process with a traceback of every thread if it hangs."""
    faulthandler.dump_traceback_later(seconds, exit=True)


def rounds(seconds, at_least=3):
    """Counts from 0 until so many seconds have passed."""
    until, number = time.monotonic() + seconds, 0
    while number < at_least or time.monotonic() < until:
        yield number
        number += 1


def say(allocator, ordinal, size, **more):
    """Tells judge.py what an allocator says that it had at its peak, in bytes."""
    line = dict(pid=os.getpid(), allocator=allocator, ordinal=ordinal, bytes=int(size), **more)
    print("ALLOC " + json.dumps(line), flush=True)


def say_torch(ordinal=None):
    import torch

    ordinal = torch.cuda.current_device() if ordinal is None else ordinal
    torch.cuda.synchronize(ordinal)
    say("torch", ordinal, torch.cuda.max_memory_reserved(ordinal), allocated=torch.cuda.max_memory_allocated(ordinal))
