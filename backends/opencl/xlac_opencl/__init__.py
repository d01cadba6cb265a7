"""The opencl backend: kernels as OpenCL C, on any device with OpenCL 1.2 or later."""

from xlac_opencl.backend import OpenCLBackend

BACKEND = OpenCLBackend()
