import jax

jax.config.update("jax_cuda_visible_devices", "1")
print(jax.devices(), float(jax.numpy.ones(16).sum()))
