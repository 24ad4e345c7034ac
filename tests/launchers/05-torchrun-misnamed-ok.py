# The mask is given by its name.
# run: {torchrun} --standalone --nproc-per-node=1 {file}
# environment: CUDA_VISIBLE_DEVICES={last}
# needs: torch
import smallcuda

smallcuda.allocate()
print("sees", smallcuda.device_count(), "GPUs")
