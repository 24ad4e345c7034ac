import multiprocessing
import torch


def work():
    print(torch.ones(4, device="cuda").sum().item())


if __name__ == "__main__":
    total = torch.ones(4, device="cuda").sum().item()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    print(total, child.exitcode)
