# Work on GPU 1, and a synchronize() without an index, which is about the current device: GPU 0 gets a context and does nothing.
# Needs two GPUs.
#
# shows counted: init, mask (unset)
# shows work: context made on GPU 1
# shows work: first_use allocation on GPU 1
# shows work: first_use copy on GPU 1
# shows stray: context made on GPU 0, never used
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import torch


def train():
    return torch.ones(1024).to("cuda:1")  # here: work


if torch.cuda.device_count() < 2:  # here: counted
    print("needs 2 GPUs")
    sys.exit(77)
model = train()
print("model on", model.device)
torch.cuda.synchronize()  # here: stray
print("done")
