# A launcher that sees GPU 1 alone and hands on its own number for it, which is 0: the worker is on GPU 0 of the machine. A second
# worker gets the launcher's mask, and stays inside it. Needs two GPUs.
#
# shows written: variable CUDA_VISIBLE_DEVICES = 1
# shows launcher: init, mask 1
# shows worker: init, mask 0
import os
import subprocess
import sys

import driver

cuda = driver.Driver()
if len(sys.argv) > 1:
    cuda.cuInit(0)  # here: worker
    sys.exit(0)
os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # here: written
cuda.cuInit(0)  # here: launcher
for mask in ["0", "1"]:
    subprocess.check_call([sys.executable, __file__, "worker"], env=dict(os.environ, CUDA_VISIBLE_DEVICES=mask))
print("done")
