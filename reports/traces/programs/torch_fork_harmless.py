import os
import subprocess
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = torch.nn.Linear(4, 4).to("cuda")
    data = TensorDataset(torch.arange(64.0).reshape(16, 4))
    for (batch,) in DataLoader(data, batch_size=4, num_workers=2):
        model(batch.to("cuda"))
    print(subprocess.run([sys.executable, "-c", "print('another program')"]).returncode)
    print(os.system("exit 0"))
    child = os.fork()
    if child == 0:
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
