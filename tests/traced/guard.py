# A guard that selects GPU 1 and restores GPU 0 at its end: the restoring makes a context on GPU 0. Needs two GPUs.
#
# shows enter: init, mask (unset)
# shows enter: context made on GPU 1
# shows work: first_use allocation on GPU 1
# shows exit: context made on GPU 0, never used
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import cupy


def work():
    return cupy.zeros(1 << 20)  # here: work


# The exit of the block bears the line of the `with` statement since Python 3.8, and here enter and exit share it.
with cupy.cuda.Device(1):  # here: enter, exit
    array = work()
print("array on", array.device)
