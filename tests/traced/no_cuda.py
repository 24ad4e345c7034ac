# A program that never uses CUDA, and starts another one. It writes a variable that CUDA would read.
#
# shows written: variable CUDA_VISIBLE_DEVICES = 0, and no init
import os
import subprocess
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # here: written
print("child", subprocess.call([sys.executable, "-c", "pass"]))
