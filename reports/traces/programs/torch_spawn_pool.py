import torch
import torch.multiprocessing


def work(gpu):
    return torch.ones(4, device=f"cuda:{gpu}").sum().item()


if __name__ == "__main__":
    torch.multiprocessing.set_start_method("spawn")
    torch.cuda.init()
    with torch.multiprocessing.Pool(1) as pool:
        print(pool.map(work, [0, 0]))
