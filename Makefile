# What `pytest` alone does not do: tests that need a GPU, there, and under NVIDIA's checker.
PYTHON ?= python
CASES = tests/gpu/test_cuda_kernels.py tests/gpu/test_cuda_tiles.py tests/gpu/test_cuda_memory.py \
	tests/gpu/test_cuda_groups.py tests/gpu/test_cuda_attention_groups.py
# Kernels with barriers, shared memory or atomics.
SHARING = contractions or attentions or convolutions or epilogues or recurring or scanning or scattering or selection \
	or sorting or rows or byte_products or tile

.PHONY: test-gpu memcheck racecheck
test-gpu: # every kernel case, compiled by nvcc for cuda_sm90 and run on the GPU
	EDGEC_TEST_GPU=1 $(PYTHON) -m pytest -n 8 $(CASES)

memcheck racecheck:
	EDGEC_TEST_GPU=1 compute-sanitizer --tool $@ --error-exitcode 1 $(PYTHON) -m pytest $(CASES) -k "$(SHARING)"
