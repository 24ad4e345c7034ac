"""A small stand-in for PyTorch: it counts by NVML and, where that fails, by libcuda with a warning."""
import ctypes
import os
import warnings


class cuda:
    @staticmethod
    def device_count():
        nvml, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0:
            mask = os.environ.get("CUDA_VISIBLE_DEVICES")
            listed = range(count.value) if mask is None else [int(entry) for entry in mask.split(",")]
            return len([entry for entry in listed if entry < count.value])
        warnings.warn("Can't initialize NVML")
        driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
        if status:
            raise RuntimeError("CUDA driver initialization failed: %d" % status)
        return count.value
