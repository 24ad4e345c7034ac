# A module that initialises CUDA while it is imported, and that a forkserver imports before it forks. The child is forked at no line
# of this program, and makes no call of the driver.
#
# shows init: init, mask (unset), in the forkserver
# shows forked: forked, 0 contexts in the parent
import multiprocessing

import driver

if __name__ == "preload":
    driver.Driver().cuInit(0)  # here: init


def work():
    pass


if __name__ == "__main__":
    kind = multiprocessing.get_context("forkserver")
    kind.set_forkserver_preload(["preload"])
    child = kind.Process(target=work)
    child.start()
    child.join()
    print("child", child.exitcode)
