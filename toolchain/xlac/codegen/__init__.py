"""From a fused group to kernels: `lower` is the dispatcher."""
