# A mask that is written too late: an innocent question has initialised CUDA before.
#
# shows asked: init, mask (unset)
# shows written: variable CUDA_VISIBLE_DEVICES = 1, after the init
# shows context: context made on GPU 0, which the mask hides
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
import torch


def looks_harmless():
    return torch.cuda.is_available()  # here: asked


def main():
    print("available", looks_harmless())
    os.environ["CUDA_VISIBLE_DEVICES"] = "1"  # here: written
    print("devices", torch.cuda.device_count())
    torch.ones(1).to("cuda:0")  # here: context


main()
