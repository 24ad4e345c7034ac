# More ranks than GPUs, spread over all of them.
# run: {torchrun} --standalone --nproc-per-node={more} {file}
# needs: torch
import os

import smallcuda

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
smallcuda.set_device(int(os.environ["LOCAL_RANK"]) % int(os.environ["LAUNCHERS_GPUS"]))
smallcuda.allocate()
assert smallcuda.meet(world_size)
print("rank", rank, "done")
