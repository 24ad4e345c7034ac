# Workers of a forkserver that read files, and have no context.
import multiprocessing
import zlib

import smallcuda


def read(path):
    smallcuda.meet(5)
    with open(path, "rb") as file:
        return zlib.crc32(file.read())


if __name__ == "__main__":
    count = smallcuda.device_count()
    smallcuda.set_device(count - 1)
    smallcuda.allocate()
    kind = multiprocessing.get_context("forkserver")
    with kind.Pool(5) as pool:
        print(len(pool.map(read, [__file__] * 10, chunksize=1)), "files")
