import os
import threading
import torch

lock = threading.Lock()
written = threading.Barrier(2)
turn = [threading.Event(), threading.Event()]
turn[0].set()


def trial(gpu):
    turn[gpu].wait()
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)
    turn[1].set()
    written.wait()
    with lock:
        print(gpu, torch.cuda.device_count(), torch.ones(1, device="cuda").item())


threads = [threading.Thread(target=trial, args=(gpu,)) for gpu in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
