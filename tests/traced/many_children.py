# Many children by fork that each call cuInit: the arguments are how many there are (200) and how many at a time (all).
#
# shows init: init, mask (unset), once in every child
import os
import sys

import driver

children = int(sys.argv[1]) if len(sys.argv) > 1 else 200
at_a_time = int(sys.argv[2]) if len(sys.argv) > 2 else children

cuda = driver.Driver()
running, failed = set(), 0


def wait():
    global failed
    child, status = os.wait()
    running.discard(child)
    failed += status != 0


for _ in range(children):
    while len(running) >= at_a_time:
        wait()
    child = os.fork()
    if child == 0:
        os._exit(cuda.unchecked.cuInit(0))  # here: init
    running.add(child)
while running:
    wait()
print("children", children, "failed", failed)
