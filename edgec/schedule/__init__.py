"""Scheduling: each block becomes a kernel (template, loops, layouts, tiles); buffers get their place in memory."""
