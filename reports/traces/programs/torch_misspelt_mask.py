import os
import subprocess
import sys

work = "import torch; print(torch.cuda.device_count(), torch.ones(1, device='cuda').item())"
sys.exit(subprocess.call([sys.executable, "-c", work], env=dict(os.environ, CUDA_VISIBLE_DEVICE="1")))
