# A mask that names what there is not: the word ends the list before it has begun, and every GPU is hidden.
#
# shows written: variable CUDA_VISIBLE_DEVICES = all
# shows read: init, mask all
import os

import driver

cuda = driver.Driver()
os.environ["CUDA_VISIBLE_DEVICES"] = "all"  # here: written
print("status", cuda.unchecked.cuInit(0))  # here: read
