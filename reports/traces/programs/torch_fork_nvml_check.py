import os

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
import torch

print(torch.cuda.is_available())
child = os.fork()
if child == 0:
    print(torch.zeros(1, device="cuda").device)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
