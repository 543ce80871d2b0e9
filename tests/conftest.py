"""Tests import the modules beside this file (small_models, compiled, ...)."""
