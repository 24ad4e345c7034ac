# A program that has initialised CUDA becomes another one, which sets the mask before it initialises CUDA for itself.
#
# shows first: init, mask (unset), before the exec
# shows written: variable CUDA_VISIBLE_DEVICES = 1, after the exec and before the second init
# shows second: init, mask 1, after the exec
import os
import sys

import driver

cuda = driver.Driver()
if sys.argv[1:] == ["again"]:
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # here: written
    cuda.cuInit(0)  # here: second
    print("done")
    sys.exit(0)
cuda.cuInit(0)  # here: first
os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "again"])
