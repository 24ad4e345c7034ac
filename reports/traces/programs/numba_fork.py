import os
import numpy
from numba import cuda

print(cuda.is_available())
child = os.fork()
if child == 0:
    try:
        cuda.to_device(numpy.ones(4))
    except Exception as error:
        print(type(error).__name__, error)
        os._exit(1)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
