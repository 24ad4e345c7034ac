"""What the Python programs share: a deadline, a pause at a peak, and the number of GPUs."""
import glob
import os
import signal
import time

MIB = 1 << 20
# Multicast over NVLink stays off.
os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")
# Each process ends after so many seconds, whatever it waits for.
signal.alarm(45)


def deadline(seconds=45):
    """For a process that was forked: fork does not inherit the alarm."""
    signal.alarm(seconds)


def hold(seconds=0.2):
    """Keeps what is held for so long that a reader outside sees it."""
    time.sleep(seconds)


def gpus(most=4):
    """How many GPUs there are, without a call of CUDA or NVML."""
    found = int(os.environ.get("LEDGER_GPUS", 0)) or len(glob.glob("/dev/nvidia[0-9]*"))
    return max(1, min(found, most))
