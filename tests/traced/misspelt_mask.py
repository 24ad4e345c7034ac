# A launcher that gives one child the mask under another name, of the same words; another child has a variable of its own, which looks
# like one of CUDA.
#
# shows init: init, mask (unset), in both children
import os
import subprocess
import sys

import driver

if len(sys.argv) > 1:
    driver.Driver().cuInit(0)  # here: init
    sys.exit(0)
for name in ["AVAILABLE_CUDA_DEVICES", "CUDA_DEVICES"]:
    subprocess.check_call([sys.executable, __file__, "child"], env=dict(os.environ, **{name: "1"}))
print("done")
