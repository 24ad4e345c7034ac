#: what: multiprocessing with fork, spawn and forkserver
#: expect: C
#: timeout: 60
import multiprocessing as m
if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with m.get_context(how).Pool(2) as p:
            assert p.map(abs, [-1, -2]) == [1, 2]
