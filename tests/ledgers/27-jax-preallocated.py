"""JAX with two hundredths of each GPU preallocated, arrays sharded over all GPUs, a sum over them (NCCL in the process)."""
from common import hold
import os

os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".02"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

devices = jax.devices()[:4]
mesh = Mesh(np.array(devices), ("d",))
x = jax.device_put(jnp.ones((len(devices) * 512, 1024)), NamedSharding(mesh, PartitionSpec("d")))
total = jax.jit(lambda x: jnp.tanh(x @ x.T).sum())(x)
print(len(devices), "devices", float(total))
hold(.4)
