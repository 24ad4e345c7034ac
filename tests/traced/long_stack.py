# A call at the bottom of a deep recursion: the argument is how many frames there are (900).
#
# shows init: init, mask (unset), with a stack that was cut
import sys

import driver

cuda = driver.Driver()


def descend(left):
    if left:
        return 1 + descend(left - 1)
    cuda.cuInit(0)  # here: init
    return 1


depth = int(sys.argv[1]) if len(sys.argv) > 1 else 900
sys.setrecursionlimit(depth + 100)
print("frames", descend(depth - 1))
