"""A small network in JAX, trained for a while."""
import jax
import jax.numpy as jnp
from common import rounds, say


def loss(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return jnp.mean(x**2)


@jax.jit
def step(weights, x):
    value, slopes = jax.value_and_grad(loss)(weights, x)
    return [weight - 0.01 * slope for weight, slope in zip(weights, slopes)], value


def train(seconds, width=2048, layers=6):
    keys = jax.random.split(jax.random.key(0), layers + 1)
    weights = [jax.random.normal(key, (width, width)) * 0.02 for key in keys[:-1]]
    x = jax.random.normal(keys[-1], (4096, width))
    for number in rounds(seconds):
        weights, value = step(weights, x)
        value.block_until_ready()
    print(number + 1, "steps on", jax.devices()[0], "loss", float(value))
    stats = jax.local_devices()[0].memory_stats() or {}
    print("memory_stats", {name: stats.get(name) for name in ("pool_bytes", "peak_pool_bytes", "peak_bytes_in_use", "bytes_limit")})
    say("jax", 0, stats.get("pool_bytes") or stats.get("peak_bytes_in_use") or 0, in_use=stats.get("peak_bytes_in_use"))
