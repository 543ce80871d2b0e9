"""Schedules for GPUs, shared by CUDA and OpenCL: what one thread, one group and one launch compute.

A kernel is a grid of groups; the threads of one group share fast memory and can wait for one another. The bodies are
those of the C schedules: the formula of a block over loops and positions in memory. Nothing here knows a language.
"""
