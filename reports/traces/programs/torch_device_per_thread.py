import threading
import torch


def trial(gpu):
    torch.cuda.set_device(gpu)
    print(gpu, torch.cuda.device_count(), torch.ones(1, device="cuda").item())


threads = [threading.Thread(target=trial, args=(gpu,)) for gpu in range(2)]
for thread in threads:
    thread.start()
    thread.join()
