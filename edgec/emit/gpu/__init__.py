"""GPU kernels as their templates see them, for CUDA and OpenCL alike."""
