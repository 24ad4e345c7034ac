# A start script counts its GPUs and gives torchrun its mask again, sorted: device 0 of each rank is another GPU than the script's device 0.
# run: {python} {file} {torchrun}
# environment: CUDA_VISIBLE_DEVICES={down}
# needs: torch
import os
import subprocess
import sys

import smallcuda

if "LOCAL_RANK" in os.environ:
    smallcuda.set_device(int(os.environ["LOCAL_RANK"]))
    smallcuda.allocate()
    sys.exit(0)
count = smallcuda.device_count()
mask = ",".join(sorted(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))
command = [*sys.argv[1:], "--standalone", f"--nproc-per-node={count}", __file__]
sys.exit(subprocess.call(command, env=dict(os.environ, CUDA_VISIBLE_DEVICES=mask)))
