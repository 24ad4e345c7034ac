# A mask that is written too late, by the address that `setenv` has in the C library itself. This call is not intercepted: the trace
# reports the write when the process ends, without its line.
#
# shows init: init, mask (unset)
# shows written: variable CUDA_VISIBLE_DEVICES = 1, after the init
import ctypes

import driver

cuda = driver.Driver()
cuda.cuInit(0)  # here: init
status = ctypes.CDLL("libc.so.6").setenv(b"CUDA_VISIBLE_DEVICES", b"1", 1)
print("written", status == 0)
