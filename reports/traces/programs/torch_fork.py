import os
import torch

torch.cuda.init()
child = os.fork()
if child == 0:
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    os._exit(0)
os.waitpid(child, 0)
