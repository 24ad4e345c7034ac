import threading
from numba import cuda


def work():
    cuda.to_device([1.0, 2.0])


thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done")
