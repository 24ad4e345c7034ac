# Forks after cuInit: the child makes no call of the driver, as one in which a framework refuses CUDA by itself. What subprocess and
# os.system start is no fork of this process to the driver.
#
# shows init: init, mask (unset)
# shows forked: forked, 0 contexts in the parent
import os
import subprocess
import sys

import driver

cuda = driver.Driver()
cuda.cuInit(0)  # here: init
child = os.fork()  # here: forked
if child == 0:
    os._exit(1)
_, status = os.waitpid(child, 0)
others = [subprocess.call([sys.executable, "-c", "pass"]), os.system("exit 0")]
print("child", os.WEXITSTATUS(status), "others", others)
