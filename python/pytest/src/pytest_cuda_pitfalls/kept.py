"""What is left by nobody: commands that end with this process, and folders that the program removes after it."""

import fcntl
import glob
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from typing import Any, Dict, NamedTuple, Optional, Sequence

_KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
#: What the file `lock` of a folder of the program holds (src/instrument/folder.rs).
_LOCK = "lock"
_MARK = b"private folder of a cuda-pitfalls run, format 1\n"


class Folder:
    """A folder of this user's alone, as the program makes them: with the lock by which its next run knows that this
    process has ended, and removes what it left."""

    def __init__(self) -> None:
        for lock in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "cuda-pitfalls-*", _LOCK)):
            _remove_dead(lock)
        self.path = tempfile.mkdtemp(prefix="cuda-pitfalls-")
        unnamed = os.path.join(self.path, "unlocked")
        # It is locked and marked before it has its name: a folder whose lock is free is removed.
        self._lock = open(unnamed, "wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._lock.write(_MARK)
        self._lock.flush()
        os.rename(unnamed, os.path.join(self.path, _LOCK))

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: Any) -> None:
        # The lock goes last: a removal that is cut short is taken up by the program.
        for entry in os.scandir(self.path):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != _LOCK:
                os.unlink(entry.path)
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_dead(lock: str) -> None:
    """Removes a folder of this user's whose process has ended. What is in doubt stays."""
    folder = os.path.dirname(lock)
    try:
        about = os.lstat(folder)
        if about.st_uid != os.geteuid() or about.st_mode not in (stat.S_IFDIR | 0o700, stat.S_IFDIR | 0o711):
            return
        # Without waiting: nobody may ever write into a pipe of this name.
        with os.fdopen(os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if held.read(len(_MARK) + 1) == _MARK:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return


class Ended(NamedTuple):
    """A command that has ended."""

    #: Its exit code; below 0 the number of the signal that ended it.
    code: int
    stdout: str
    stderr: str
    #: Whether its time was over, and it was ended with all that it had started.
    is_late: bool


def run(
    argv: Sequence[str],
    folder: str,
    env: Optional[Dict[str, str]] = None,
    cwd: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Ended:
    """Runs a command to its end. When its time is over, or this process ends however it does, the command ends with all
    that it has started. What it prints goes to files in ``folder``, so who keeps them open is not waited for.

    :raises OSError: it cannot be started.
    """
    ended, *paths = (os.path.join(folder, name) for name in ("ended", "stdout", "stderr"))
    keeper = [sys.executable, "-I", "-S", _KEEPER, str(os.getpid()), ended, *argv]
    with open(paths[0], "wb") as stdout, open(paths[1], "wb") as stderr:
        child = subprocess.Popen(keeper, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env, cwd=cwd)
        is_late = False
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            if child.returncode is None:
                child.terminate()
                child.wait()
    how, number = "ended", -9
    if os.path.exists(ended):
        with open(ended) as text:
            how, number = (kind(word) for kind, word in zip((str, int), text.read().split()))
    if how == "errno":
        raise OSError(number, os.strerror(number), argv[0])
    printed = []
    for path in paths:
        with open(path, errors="replace") as text:
            printed.append(text.read())
    return Ended(number, printed[0], printed[1], is_late)
