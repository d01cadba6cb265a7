"""The cuda backend: kernels become CUDA C++, and that machine code for NVIDIA's GPUs; writing and
building need no GPU.
"""

from xlac_cuda.backend import CudaBackend

BACKEND = CudaBackend()
