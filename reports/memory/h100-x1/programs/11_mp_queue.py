"""Tensors of the GPU go through a queue to another process, which opens their memory."""
import torch
import torch.multiprocessing as mp
from common import deadline, say_torch

MANY = 4


def receive(inbox, outbox):
    deadline(50)
    held = []
    for _ in range(MANY):
        tensor = inbox.get()
        held.append(tensor)
        outbox.put(float((tensor * 2).mean().item()))
    say_torch(0)
    # The sender may end when the receiver has dropped what it was sent.
    inbox.get()
    del tensor, held
    torch.cuda.synchronize()
    outbox.put("dropped")


def main():
    deadline(60)
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    child = context.Process(target=receive, args=(there, back))
    child.start()
    sent = [torch.full((64 << 18,), float(number), device="cuda") for number in range(MANY)]
    torch.cuda.synchronize()
    for tensor in sent:
        there.put(tensor)
    means = [back.get(timeout=40) for _ in range(MANY)]
    say_torch(0)
    there.put(None)
    print(MANY, "tensors of 64 MiB were sent; twice their means:", means, back.get(timeout=20))
    child.join(20)


if __name__ == "__main__":
    main()
