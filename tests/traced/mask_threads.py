# Two threads that each set a mask of their own, before one of them uses CUDA: the environment is the process's, and the last
# mask counts for both.
#
# shows written: variable CUDA_VISIBLE_DEVICES = 0, on the first thread
# shows written: variable CUDA_VISIBLE_DEVICES = 1, on the second one
# shows init: init, mask 1
import os
import threading

import driver

cuda = driver.Driver()


def trial(gpu):
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu)  # here: written


for gpu in range(2):
    thread = threading.Thread(target=trial, args=(gpu,))
    thread.start()
    thread.join()
cuda.cuInit(0)  # here: init
print("mask", os.environ["CUDA_VISIBLE_DEVICES"])
