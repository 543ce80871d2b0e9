// The speed of a large copy on the GPU, for benchmarks.gpu.language_models: bytes read and written, in a second.
#include <cuda_runtime.h>

extern "C" double copy_speed(void) {
  const size_t bytes = (size_t)1 << 30;
  const int runs = 10;
  void *a = nullptr, *b = nullptr;
  cudaEvent_t begin, end;
  float milliseconds = 0;
  if (cudaMalloc(&a, bytes) != cudaSuccess || cudaMalloc(&b, bytes) != cudaSuccess) return -1;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice);
  cudaEventRecord(begin);
  for (int run = 0; run < runs; ++run) cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice);
  cudaEventRecord(end);
  const bool is_done = cudaEventSynchronize(end) == cudaSuccess && cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess;
  cudaFree(a);
  cudaFree(b);
  return is_done ? 2e3 * runs * (double)bytes / milliseconds : -1;
}
