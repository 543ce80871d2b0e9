"""Schedules for GPUs, shared by CUDA and OpenCL: the work of one thread, one thread block and one launch.

A kernel is a grid of thread blocks (OpenCL: work-groups) whose threads have shared memory and barriers in common. The
bodies are those of the C schedules: the formula of a block over loops and positions in memory. No schedule depends on a
language.
"""
