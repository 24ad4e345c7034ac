import threading
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    data = TensorDataset(torch.arange(64.0).reshape(16, 4))

    def epoch():
        for (batch,) in DataLoader(data, batch_size=4, pin_memory=True, num_workers=2):
            batch.to("cuda", non_blocking=True)

    thread = threading.Thread(target=epoch)
    thread.start()
    thread.join()
    print("batches on", torch.cuda.device_count(), "GPU")
