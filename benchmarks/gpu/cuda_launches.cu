/* What one step of a network of tiny kernels costs on a GPU: a kernel of a CUDA graph, the same overlapping the one before
 * (programmatic dependent launch), and a step of one persistent cooperative kernel with barriers of the whole grid.
 *
 *   nvcc -std=c++17 -O3 -arch=sm_90 benchmarks/gpu/cuda_launches.cu -o launches && ./launches
 *
 * Every step reads what all groups of the step before have written. Microseconds a step, median of seven. */
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#define CHECK(e)                                                              \
  do {                                                                        \
    const cudaError_t error = (e);                                            \
    if (error != cudaSuccess) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

enum { THREADS = 256, STEPS = 100 };

/* Half of what one sees and half of what a thread far away has. */
static __device__ __forceinline__ void step(const float *from, float *to, int groups, int group) {
  const int all = groups * THREADS, me = group * THREADS + (int)threadIdx.x;
  to[me] = 0.5f * (__ldcg(from + me) + __ldcg(from + (me + all / 2) % all)) + 1.0f;
}

__global__ void __launch_bounds__(THREADS) one(const float *from, float *to, int groups) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  step(from, to, groups, (int)blockIdx.x);
}

/* Groups beyond those that fit at once are done in turn. */
__global__ void __launch_bounds__(THREADS) persistent(float *a, float *b, int groups, unsigned *arrived) {
  for (int number = 0; number < STEPS; ++number) {
    for (int group = (int)blockIdx.x; group < groups; group += (int)gridDim.x) step(number % 2 ? b : a, number % 2 ? a : b, groups, group);
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1);
      while (*(volatile unsigned *)arrived < (unsigned)(number + 1) * gridDim.x) {}
      __threadfence();
    }
    __syncthreads();
  }
}

static float *a, *b;
static unsigned *arrived;

static void enqueue(int way, int groups, int resident, cudaStream_t stream) {
  if (way == 2) {
    CHECK(cudaMemsetAsync(arrived, 0, sizeof *arrived, stream));
    void *arguments[] = {&a, &b, &groups, &arrived};
    CHECK(cudaLaunchCooperativeKernel((const void *)persistent, dim3((unsigned)std::min(groups, resident)), dim3(THREADS), arguments, 0, stream));
    return;
  }
  for (int number = 0; number < STEPS; ++number) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3((unsigned)groups);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = way == 1 && number;
    CHECK(cudaLaunchKernelEx(&config, one, (const float *)(number % 2 ? b : a), number % 2 ? a : b, groups));
  }
}

int main() {
  cudaDeviceProp device;
  cudaStream_t stream;
  cudaEvent_t from, to;
  CHECK(cudaGetDeviceProperties(&device, 0));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&from));
  CHECK(cudaEventCreate(&to));
  const size_t bytes = sizeof(float) * THREADS * 4096;
  CHECK(cudaMalloc(&a, bytes));
  CHECK(cudaMalloc(&b, bytes));
  CHECK(cudaMalloc(&arrived, sizeof *arrived));
  printf("%s, %d multiprocessors; us a step: a graph, a graph that overlaps, one kernel\n", device.name, device.multiProcessorCount);
  for (int groups : {1, 8, 33, 132, 528, 2112}) {
    printf("%5d groups", groups);
    float first = -1;
    for (int way = 0; way < 3; ++way) {
      cudaGraph_t graph;
      cudaGraphExec_t made;
      CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      enqueue(way, groups, device.multiProcessorCount, stream);
      CHECK(cudaStreamEndCapture(stream, &graph));
      CHECK(cudaGraphInstantiate(&made, graph, 0));
      float found[7], result = 0;
      CHECK(cudaMemsetAsync(a, 0, bytes, stream));
      for (int time = 0; time < 3; ++time) CHECK(cudaGraphLaunch(made, stream));
      for (float &f : found) {
        CHECK(cudaEventRecord(from, stream));
        for (int time = 0; time < 20; ++time) CHECK(cudaGraphLaunch(made, stream));
        CHECK(cudaEventRecord(to, stream));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&f, from, to));
      }
      std::sort(found, found + 7);
      CHECK(cudaMemcpy(&result, a, sizeof result, cudaMemcpyDeviceToHost));
      if (first < 0) first = result;
      printf("  %6.3f%s", found[3] * 1e3 / 20 / STEPS, result == first ? "" : " (wrong)");
      CHECK(cudaGraphExecDestroy(made));
      CHECK(cudaGraphDestroy(graph));
    }
    printf("\n");
  }
  return 0;
}
