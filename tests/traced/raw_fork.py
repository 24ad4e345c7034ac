# A child that is forked by the system call, which calls no handlers of `fork`: only the call that fails in it shows the fork.
#
# shows init: init, mask (unset)
# shows forked: forked, 0 contexts in the parent
# shows child: error of cuMemAlloc_v2 in the child
import ctypes
import os
import platform

import driver

CLONE, SIGCHLD = 220 if platform.machine() == "aarch64" else 56, 17
cuda = driver.Driver()
memory = driver.handle()
cuda.cuInit(0)  # here: init
child = ctypes.CDLL(None).syscall(CLONE, SIGCHLD, 0, 0, 0, 0)
if child == 0:
    status = cuda.unchecked.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))  # here: child
    os._exit(0 if status != 0 else 1)
_, status = os.waitpid(child, 0)
print("child refused", status == 0)
