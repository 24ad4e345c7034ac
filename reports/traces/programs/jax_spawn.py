import multiprocessing


def work(value):
    import jax

    return float(jax.numpy.full(4, value).sum())


if __name__ == "__main__":
    import os

    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax

    multiprocessing.set_start_method("spawn")
    print(len(jax.devices()))
    with multiprocessing.Pool(1) as pool:
        print(pool.map(work, [1.0, 2.0]))
