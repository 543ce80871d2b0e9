"""Widths of vectors that edgec has code for."""

#: Lanes of the narrowest vector of ec_simd.h; a machine without vectors computes its lanes one by one.
NARROWEST = 4
