"""JAX without preallocation on all GPUs: a training step with weights that are replicated and data that are sharded."""
from common import hold
import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".02"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

devices = jax.devices()[:4]
mesh = Mesh(np.array(devices), ("d",))
weights = [jax.random.normal(key, (1024, 1024)) * .02 for key in jax.random.split(jax.random.key(0), 4)]
weights = jax.device_put(weights, NamedSharding(mesh, PartitionSpec()))
x = jax.device_put(jnp.ones((len(devices) * 256, 1024)), NamedSharding(mesh, PartitionSpec("d")))


def loss(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return jnp.mean(x**2)


step = jax.jit(lambda weights, x: jax.tree.map(lambda w, s: w - .1 * s, weights, jax.grad(loss)(weights, x)))
for number in range(8):
    weights = step(weights, x)
jax.block_until_ready(weights)
print(len(devices), "devices", float(loss(weights, x)))
hold(.2)
# From one GPU to another.
moved = [jax.device_put(jnp.full((40 << 18,), float(number)), device) for number, device in enumerate(devices)]
moved += [jax.device_put(part, devices[(number + 1) % len(devices)]) for number, part in enumerate(moved)]
print(sum(float(part[0]) for part in moved))
hold(.4)
