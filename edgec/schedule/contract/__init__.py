"""Sums of products: GEMM and convolutions as register-tiled kernels, their micro-kernels, and Winograd."""
