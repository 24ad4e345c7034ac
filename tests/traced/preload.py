# A module that initialises CUDA while it is imported, and that a forkserver imports before it forks. The child is forked at no line
# of this program, and makes no call of the driver.
#
# shows init: init, mask (unset), in the forkserver
# shows forked: forked, 0 contexts in the parent
import multiprocessing
import multiprocessing.forkserver
import os

import driver

if __name__ == "preload":
    driver.Driver().cuInit(0)  # here: init


def work():
    pass


if __name__ == "__main__":
    # Not every Python hands its own path on to the forkserver.
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    kind = multiprocessing.get_context("forkserver")
    kind.set_forkserver_preload(["preload"])
    child = kind.Process(target=work)
    child.start()
    child.join()
    print("child", child.exitcode)
    # It would go on for a moment after this program has ended.
    multiprocessing.forkserver._forkserver._stop()
