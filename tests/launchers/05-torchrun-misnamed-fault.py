# The mask is given by a name that nothing reads.
# run: {torchrun} --standalone --nproc-per-node=1 {file}
# environment: CUDA_DEVICES_VISIBLE={last}
# needs: torch
import smallcuda

smallcuda.allocate()
print("sees", smallcuda.device_count(), "GPUs")
