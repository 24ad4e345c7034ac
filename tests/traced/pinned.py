# Page-locked host memory belongs to a context: without a selected device it makes one on GPU 0.
#
# shows pin: init, mask (unset)
# shows pin: context made on GPU 0
# shows pin: host_memory, 4096 bytes
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import torch

batch = torch.ones(1024).pin_memory()  # here: pin
print("pinned", batch.is_pinned())
