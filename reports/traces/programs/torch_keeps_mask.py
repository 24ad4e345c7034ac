import os
import subprocess
import sys
import torch

if len(sys.argv) > 1:
    print("worker", torch.ones(1, device="cuda").item())
    sys.exit()
os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"
print("launcher", torch.ones(1, device="cuda").item())
mask = os.environ["CUDA_VISIBLE_DEVICES"]
subprocess.check_call([sys.executable, __file__, "worker"], env=dict(os.environ, CUDA_VISIBLE_DEVICES=mask))
