import jax

print(jax.devices())
