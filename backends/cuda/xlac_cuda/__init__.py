"""The cuda backend: kernels become CUDA C++, and machine code for NVIDIA's GPUs; neither needs a
GPU.
"""

from xlac_cuda.backend import CudaBackend

BACKEND = CudaBackend()
