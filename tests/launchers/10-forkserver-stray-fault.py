# Workers of a forkserver that read files. Their initializer selects a device, so each has a context that it never uses.
import multiprocessing
import os
import zlib

import smallcuda


def begin(count):
    smallcuda.set_device(os.getpid() % count)


def read(path):
    smallcuda.meet(5)
    with open(path, "rb") as file:
        return zlib.crc32(file.read())


if __name__ == "__main__":
    count = smallcuda.device_count()
    smallcuda.set_device(count - 1)
    smallcuda.allocate()
    kind = multiprocessing.get_context("forkserver")
    with kind.Pool(5, initializer=begin, initargs=(count,)) as pool:
        print(len(pool.map(read, [__file__] * 10, chunksize=1)), "files")
