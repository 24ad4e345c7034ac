"""What Python programs use of cuda-pitfalls. The program itself is the command ``cuda-pitfalls``.

``cuda_pitfalls.mask`` predicts which GPUs a value of ``CUDA_VISIBLE_DEVICES`` makes visible, and has the
values that were measured. Importing this package loads no library and makes no call of CUDA or NVML.
"""
