# Ranks that never read LOCAL_RANK: each one's memory is on GPU 0, and the other GPUs have none.
# run: {torchrun} --standalone --nproc-per-node={more} {file}
# needs: torch
import os

import smallcuda

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
smallcuda.allocate()
assert smallcuda.meet(world_size)
print("rank", rank, "done")
