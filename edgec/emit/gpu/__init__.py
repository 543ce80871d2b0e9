"""Views of GPU kernels, for templates of CUDA and OpenCL."""
