import multiprocessing
import torch


def select(rank):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.cuda.init()
    torch.cuda.synchronize()


def read(part):
    return sum(range(part))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with context.Pool(3, initializer=select, initargs=(1,)) as pool:
        total = sum(pool.map(read, range(9)))
    print(torch.tensor(total, device="cuda:1").item())
