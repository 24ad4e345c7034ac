"""A thread for each GPU: all make their contexts in PyTorch at the same moment, and allocate, multiply and drop on their own."""
from common import MIB, gpus, hold
import threading
import torch

count = gpus()
torch.cuda.init()
together = threading.Barrier(count)


def work(ordinal):
    together.wait()
    with torch.cuda.device(ordinal):
        held = [torch.ones((30 + 10 * ordinal) * MIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
        a = torch.randn(1536, 1536, device="cuda")
        print(ordinal, (a @ a).sum().item(), flush=True)
        hold()
        together.wait()
        held.append(held[0].to(f"cuda:{(ordinal + 1) % count}"))
        torch.cuda.synchronize()
        together.wait()
        hold()
        held = held[2:]
        torch.cuda.empty_cache()
        together.wait()
        last = torch.ones(500 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        hold(.3)
        del last


threads = [threading.Thread(target=work, args=(ordinal,)) for ordinal in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
