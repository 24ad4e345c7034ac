"""A program: runs a command, and ends it with all that it started where it is asked to, or where its parent has ended.

`keeper.py PARENT FILE COMMAND...`: PARENT is the PID of the parent, FILE gets how the command ended. A signal at the
parent's death would reach the command alone, and not what the command has started. This process adopts all of that, so
nothing gets away from it.
"""

import ctypes
import os
import signal
import sys
import time
from typing import List, Optional, Set

_PR_SET_CHILD_SUBREAPER = 36
#: How long the command may take to end by itself, and then all to be gone, in seconds.
_GRACE_S = 3
_LONGEST_S = 10
#: How often the parent is looked for, in seconds.
_PERIOD_S = 0.5


def _descendants() -> List[int]:
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, "rb") as text:
                # The name of a process may hold anything; behind it are its state and its parent.
                parents[int(name)] = int(text.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue
    found: List[int] = []
    of = {os.getpid()}
    while of:
        of = {pid for pid, parent in parents.items() if parent in of}
        found += of
    return found


class _Command:
    def __init__(self, argv: List[str], mask: "Set[int]") -> None:
        # What Python itself ignores is not ignored by the command.
        default = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD]
        self._pid = os.posix_spawnp(argv[0], argv, os.environ, setsigmask=mask, setsigdef=default)
        #: How it ended: its exit code, or minus the number of a signal.
        self.ended: Optional[int] = None

    def reap(self) -> bool:
        """Notes who has ended; whether anything still runs."""
        try:
            while True:
                pid, how = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self.ended = -os.WTERMSIG(how) if os.WIFSIGNALED(how) else os.WEXITSTATUS(how)
        except ChildProcessError:
            return False

    def end(self) -> None:
        """Asks the command to end, and kills what is left a moment later."""
        begun = time.monotonic()
        os.kill(self._pid, signal.SIGTERM)
        while self.reap() and time.monotonic() < begun + _LONGEST_S:
            if self.ended is not None or time.monotonic() > begun + _GRACE_S:
                for pid in _descendants():
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except OSError:
                        # It has ended, or has become somebody else.
                        continue
            time.sleep(0.02)


def main(parent: int, path: str, argv: List[str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # What the terminal sends reaches the command too, which ends or does not.
    awaited = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        command = _Command(argv, mask)
    except OSError as error:
        with open(path, "w") as into:
            into.write("errno %d" % (error.errno or 0))
        return
    while True:
        command.reap()
        if command.ended is not None:
            break
        got = signal.sigtimedwait(awaited, _PERIOD_S)
        if os.getppid() != parent or (got is not None and got.si_signo == signal.SIGTERM):
            command.end()
            break
    if os.getppid() == parent:
        with open(path, "w") as into:
            into.write("ended %d" % (-signal.SIGKILL if command.ended is None else command.ended))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
