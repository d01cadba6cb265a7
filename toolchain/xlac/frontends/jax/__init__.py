"""JAX functions and programs of `jax.export` as models."""
