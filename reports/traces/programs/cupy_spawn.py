import multiprocessing


def work(gpu):
    import cupy

    with cupy.cuda.Device(gpu):
        return float(cupy.ones(4).sum())


if __name__ == "__main__":
    import cupy

    multiprocessing.set_start_method("spawn")
    print(cupy.cuda.runtime.getDeviceCount())
    with multiprocessing.Pool(1) as pool:
        print(pool.map(work, [0, 0]))
