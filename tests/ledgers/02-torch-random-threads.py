"""Four threads of PyTorch take and drop tensors at random, each on a stream of its own; one empties the cache now and then."""
from common import MIB, hold
import random
import threading
import time
import torch


def work(number):
    dice, held = random.Random(100 + number), []
    with torch.cuda.stream(torch.cuda.Stream()):
        for step in range(60):
            size = dice.choice([1, 3, 8, 20, 33, 64]) * MIB
            if held and (sum(t.numel() for t in held) + size > 320 * MIB or dice.random() < .35):
                held.pop(dice.randrange(len(held)))
            else:
                held.append(torch.full((size,), number, dtype=torch.uint8, device="cuda"))
            if step % 15 == 7:
                a = torch.randn(1024, 1024, device="cuda")
                (a @ a).sum().item()
            if number == 0 and step % 20 == 19:
                torch.cuda.empty_cache()
            time.sleep(dice.random() * .04)


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
last = torch.zeros(900 * MIB, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("reserved", torch.cuda.memory_reserved() // MIB, "MiB")
hold(.4)
