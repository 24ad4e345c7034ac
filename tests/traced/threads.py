# Two threads that make contexts on two GPUs at once, as JAX does. Needs two GPUs.
#
# shows init: init, mask (unset)
# shows context: context made on GPU 0, on one thread
# shows context: context made on GPU 1, on another one
import ctypes
import threading

import driver

cuda = driver.Driver()
cuda.cuInit(0)  # here: init
driver.needs(2, cuda)
together = threading.Barrier(2)


def work(device):
    context = driver.handle()
    together.wait()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)  # here: context


threads = [threading.Thread(target=work, args=(device,), name="gpu-%d" % device) for device in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
