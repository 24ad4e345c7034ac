import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax
import jax.numpy as jnp

count = jax.local_device_count()
doubled = jax.pmap(lambda x: x * 2)(jnp.arange(count * 4.0).reshape(count, 4))
rows = jax.vmap(jnp.linalg.norm)(doubled)
grad = jax.jit(jax.grad(lambda w: jnp.sum(jnp.tanh(w) ** 2)))(jnp.ones(8))
print(count, rows.shape, grad.shape)
