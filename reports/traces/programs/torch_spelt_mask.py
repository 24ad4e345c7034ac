import os
import subprocess
import sys

work = "import torch; print(torch.cuda.device_count(), torch.ones(1, device='cuda').item())"
own = dict(os.environ, CUDA_VISIBLE_DEVICES="1", CUDA_HOME="/usr/local/cuda", CUDA_DEVICE="1")
sys.exit(subprocess.call([sys.executable, "-c", work], env=own))
