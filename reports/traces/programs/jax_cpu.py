import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax

print(jax.devices(), float(jax.numpy.ones(16).sum()))
