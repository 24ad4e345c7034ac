import multiprocessing
import torch


def work(gpu):
    return torch.ones(4, device=f"cuda:{gpu}").sum().item()


if __name__ == "__main__":
    print(torch.cuda.is_available())
    with multiprocessing.get_context("fork").Pool(2) as pool:
        try:
            print(pool.map(work, [0, 0]))
        except RuntimeError as error:
            print(str(error).splitlines()[0])
