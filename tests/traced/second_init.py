# A cuInit that fails is followed by one that succeeds: the mask that was written in between counts.
#
# shows hidden: variable CUDA_VISIBLE_DEVICES = , before any init
# shows failed: init, mask , that fails
# shows chosen: variable CUDA_VISIBLE_DEVICES = 1, before the init that counts
# shows counts: init, mask 1, that succeeds
# shows late: variable CUDA_VISIBLE_DEVICES = 0, after the init that counts
import os

import driver

cuda = driver.Driver(checked=False)
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # here: hidden
print("first", cuda.cuInit(0))  # here: failed
os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # here: chosen
print("second", cuda.cuInit(0))  # here: counts
os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # here: late
