# A launcher whose mask is 1,0 sorts it for its worker: device 0 is GPU 1 here and GPU 0 there. Needs two GPUs.
#
# shows written: variable CUDA_VISIBLE_DEVICES = 1,0
# shows launcher: init, mask 1,0
# shows worker: init, mask 0,1
import os
import subprocess
import sys

import driver

cuda = driver.Driver()
if len(sys.argv) > 1:
    cuda.cuInit(0)  # here: worker
    sys.exit(0)
os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"  # here: written
cuda.cuInit(0)  # here: launcher
driver.needs(2, cuda)
mask = ",".join(sorted(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))
subprocess.check_call([sys.executable, __file__, "worker"], env=dict(os.environ, CUDA_VISIBLE_DEVICES=mask))
print("done")
