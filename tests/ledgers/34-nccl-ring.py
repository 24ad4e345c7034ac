"""A ring of NCCL's send and receive, a rank for each GPU, without set_device: a synchronisation makes each rank a context on GPU 0."""
from common import gpus, hold
import tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank, world, store):
    device = torch.device("cuda", rank)
    x = torch.full((12 << 20,), float(rank), device=device)
    y = torch.empty_like(x)
    dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=world, device_id=device)
    for _ in range(10 if world > 1 else 0):
        send = dist.P2POp(dist.isend, x, (rank + 1) % world)
        receive = dist.P2POp(dist.irecv, y, (rank - 1) % world)
        for work in dist.batch_isend_irecv([send, receive]):
            work.wait()
    torch.cuda.synchronize()
    dist.all_reduce(x)
    torch.cuda.synchronize(device)
    # All hold what they have at the same time.
    dist.barrier()
    hold(.4)
    print("rank", rank, y[0].item(), x[0].item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(gpus(), tempfile.mkdtemp() + "/store"), nprocs=gpus())
