"""JAX with each of its allocators on one GPU, one process after the other: growing, platform, cuda_async."""
from common import hold
import os
import subprocess
import sys

if len(sys.argv) > 1:
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".02"
    if sys.argv[1] != "growing":
        os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = sys.argv[1]
    import jax
    import jax.numpy as jnp

    device = jax.devices()[0]
    held = [jax.device_put(jnp.ones((size, 1024, 256), jnp.float32), device) for size in (3, 40, 90)]
    product = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())
    print(sys.argv[1], float(product(held[0].reshape(-1, 256))))
    hold(.3)
else:
    first = subprocess.Popen([sys.executable, __file__, "growing"])
    second = subprocess.Popen([sys.executable, __file__, "platform"])
    codes = [first.wait(), second.wait(), subprocess.call([sys.executable, __file__, "cuda_async"])]
    sys.exit(max(abs(code) for code in codes))
