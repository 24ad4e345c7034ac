import multiprocessing


def work(value):
    from numba import cuda

    return float(cuda.to_device([value, 1.0]).copy_to_host().sum())


if __name__ == "__main__":
    from numba import cuda

    multiprocessing.set_start_method("spawn")
    print(cuda.is_available())
    with multiprocessing.Pool(1) as pool:
        print(pool.map(work, [1.0, 2.0]))
