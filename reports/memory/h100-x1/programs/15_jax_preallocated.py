"""JAX, which takes 8 percent of the GPU at its first array."""
import os

os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".08"
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "true"
from common import deadline

deadline(60)
from jax_work import train

train(2.5)
