import multiprocessing
import os
import torch

if __name__ == "torch_forkserver_preload":
    torch.cuda.is_available()


def work():
    try:
        torch.ones(1, device="cuda")
    except RuntimeError as error:
        print(str(error).splitlines()[0])


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    kind = multiprocessing.get_context("forkserver")
    kind.set_forkserver_preload(["torch_forkserver_preload"])
    child = kind.Process(target=work)
    child.start()
    child.join()
