"""JAX without preallocation: its pool grows."""
import os

os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
from common import deadline

deadline(60)
from jax_work import train

train(2.5)
