# A guard that selects GPU 1 and restores GPU 0 at exit, which creates a context on GPU 0. Needs two GPUs.
#
# shows counted: init, mask (unset)
# shows enter: context made on GPU 1
# shows work: first_use allocation on GPU 1
# shows exit: context made on GPU 0, never used
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import cupy


def work():
    return cupy.zeros(1 << 20)  # here: work


if cupy.cuda.runtime.getDeviceCount() < 2:  # here: counted
    print("needs 2 GPUs")
    sys.exit(77)
# One line, because the exit of a block bears the line of its end until Python 3.9, and that of the `with` since.
with cupy.cuda.Device(1): array = work()  # here: enter, exit
print("array on", array.device)
