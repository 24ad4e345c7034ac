import threading
from numba import cuda


def work():
    cuda.select_device(1)
    cuda.to_device([1.0, 2.0])


cuda.select_device(1)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done")
