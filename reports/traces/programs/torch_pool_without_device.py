import concurrent.futures
import torch

torch.cuda.set_device(1)
print("main", torch.ones(1, device="cuda").device)
with concurrent.futures.ThreadPoolExecutor() as pool:
    print("pool", pool.submit(lambda: torch.ones(1, device="cuda").device).result())
