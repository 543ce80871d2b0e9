/* What a driver takes to enqueue one kernel, in several ways, and what a barrier across all groups takes instead.
 *
 *     gcc -O2 -I codegen_templates/runtime/opencl -o enqueue benchmarks/gpu/opencl_enqueue.c -ldl && ./enqueue
 *
 * Microseconds a kernel: of the host until all are enqueued, and until the last is done; medians of rounds. */
#include <stdio.h>
#include <time.h>

#include "ec_cl.h"

enum { KERNELS = 200, ROUNDS = 15, GROUPS = 128, THREADS = 128, OBJECTS = 8, STAGES = 200 };

static const char text[] =
    "#ifdef cl_nv_pragma_unroll\n"
    "#define FENCE() asm volatile(\"membar.gl;\" ::: \"memory\")\n"
    "#else\n"
    "#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)\n"
    "#endif\n"
    "__kernel void few(__global float *a, uint at) { a[at + get_global_id(0)] += 1.0f; }\n"
    "__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void fixed(__global float *a, uint at) {\n"
    "  a[at + get_global_id(0)] += 1.0f; }\n"
    "__kernel void many(__global float *a, uint i, __global float *b, uint j, __global float *c, uint k, __global float *d,\n"
    "                   uint l, __global float *e, uint m, __global float *f, uint n) {\n"
    "  const int g = get_global_id(0);\n"
    "  a[i + g] = b[j + g] + c[k + g] + d[l + g] + e[m + g] + f[n + g]; }\n"
    "__kernel void stages(__global float *x, __global volatile int *met, int count, int first) {\n"
    "  const int groups = get_num_groups(0), g = get_group_id(0), t = get_local_id(0);\n"
    "  for (int r = 0; r < count; ++r) {\n"
    "    const __global float *from = x + (r & 1) * 65536;\n"
    "    __global float *to = x + (~r & 1) * 65536;\n"
    "    to[g * 128 + t] = from[(g + 1) % groups * 128 + t] + 1.0f;\n"
    "    FENCE();\n"
    "    barrier(CLK_GLOBAL_MEM_FENCE);\n"
    "    if (t == 0) {\n"
    "      atomic_inc((__global int *)met);\n"
    "      while (atomic_add((__global int *)met, 0) < first + (r + 1) * groups) {}\n"
    "      FENCE();\n"
    "    }\n"
    "    barrier(CLK_GLOBAL_MEM_FENCE);\n"
    "  }\n"
    "}\n";

static ec_cl cl;
static cl_context context;
static cl_device_id device;
static cl_mem objects[OBJECTS], met;
static cl_kernel kernels[KERNELS];
static cl_program program;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void give(cl_kernel k, int operands, int of) {
  const cl_uint at = 64;
  for (int i = 0; i < operands; ++i) {
    cl.SetKernelArg(k, 2 * i, sizeof(cl_mem), &objects[i % of]);
    cl.SetKernelArg(k, 2 * i + 1, sizeof at, &at);
  }
}

typedef struct {
  const char *what, *name;
  int operands, of;      /* operands, in so many objects */
  int own;               /* every kernel an object of its own */
  int local;             /* say how large a group is */
  int flush;             /* after so many */
  int set;               /* arguments between kernels */
  cl_bits queue;
  int groups;
} way;

static void measure(const way *w) {
  cl_int error;
  cl_command_queue queue = cl.CreateCommandQueue(context, device, w->queue, &error);
  for (int k = 0; k < (w->own ? KERNELS : 1); ++k) {
    kernels[k] = cl.CreateKernel(program, w->name, &error);
    give(kernels[k], w->operands, w->of);
  }
  const size_t all = (size_t)w->groups * THREADS, each = THREADS;
  double host[ROUNDS], whole[ROUNDS];
  for (int r = -2; r < ROUNDS; ++r) {
    const double begun = now();
    for (int k = 0; k < KERNELS; ++k) {
      cl_kernel kernel = kernels[w->own ? k : 0];
      if (w->set) give(kernel, w->operands, w->of);
      error |= cl.EnqueueNDRangeKernel(queue, kernel, 1, NULL, &all, w->local ? &each : NULL, 0, NULL, NULL);
      if (w->flush && k % w->flush == w->flush - 1) cl.Flush(queue);
    }
    const double enqueued = now();
    cl.Finish(queue);
    if (r >= 0) host[r] = (enqueued - begun) / KERNELS, whole[r] = (now() - begun) / KERNELS;
  }
  qsort(host, ROUNDS, sizeof *host, by_value);
  qsort(whole, ROUNDS, sizeof *whole, by_value);
  printf("%-58s %6.2f %6.2f%s\n", w->what, host[ROUNDS / 2], whole[ROUNDS / 2], error ? "  FAILED" : "");
  for (int k = 0; k < (w->own ? KERNELS : 1); ++k) cl.ReleaseKernel(kernels[k]);
  cl.ReleaseCommandQueue(queue);
}

static void stages(int groups) {
  cl_int error;
  cl_command_queue queue = cl.CreateCommandQueue(context, device, 0, &error);
  cl_kernel k = cl.CreateKernel(program, "stages", &error);
  const float zero = 0;
  const int none = 0, count = STAGES;
  double took[ROUNDS];
  const size_t all = (size_t)groups * THREADS, each = THREADS;
  int wrong = 0;
  for (int r = 0; r < ROUNDS; ++r) {
    cl.EnqueueFillBuffer(queue, objects[0], &zero, 4, 0, 2 * 65536 * 4, 0, NULL, NULL);
    cl.EnqueueFillBuffer(queue, met, &none, 4, 0, 4, 0, NULL, NULL);
    cl.SetKernelArg(k, 0, sizeof(cl_mem), &objects[0]);
    cl.SetKernelArg(k, 1, sizeof(cl_mem), &met);
    cl.SetKernelArg(k, 2, sizeof count, &count);
    cl.SetKernelArg(k, 3, sizeof none, &none);
    cl.Finish(queue);
    const double begun = now();
    error |= cl.EnqueueNDRangeKernel(queue, k, 1, NULL, &all, &each, 0, NULL, NULL);
    cl.Finish(queue);
    took[r] = (now() - begun) / STAGES;
    static float back[65536];
    cl.EnqueueReadBuffer(queue, objects[0], 1, (STAGES & 1) * 65536 * 4, (size_t)groups * 128 * 4, back, 0, NULL, NULL);
    for (int i = 0; i < groups * 128; ++i) wrong += back[i] != STAGES;
  }
  qsort(took, ROUNDS, sizeof *took, by_value);
  printf("one kernel, %3d groups, a barrier across all of them          %6.2f a stage%s%s\n", groups, took[ROUNDS / 2],
         wrong ? "  WRONG" : "", error ? "  FAILED" : "");
  cl.ReleaseKernel(k);
  cl.ReleaseCommandQueue(queue);
}

int main(void) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  cl_int error;
  const char *const why = ec_cl_open(&cl);
  if (why) return puts(why), 1;
  if (cl.GetPlatformIDs(16, platforms, &count)) return puts("no platform"), 1;
  for (cl_uint p = 0; p < count && !device; ++p) cl.GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_GPU, 1, &device, NULL);
  for (cl_uint p = 0; p < count && !device; ++p) cl.GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &device, NULL);
  if (!device) return puts("no device"), 1;
  char name[128] = "", driver[128] = "";
  cl.GetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
  cl.GetDeviceInfo(device, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
  context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &error);
  for (int k = 0; k < OBJECTS; ++k) objects[k] = cl.CreateBuffer(context, CL_MEM_READ_WRITE, 1 << 20, NULL, &error);
  met = cl.CreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &error);
  const char *texts[] = {text};
  const size_t sizes[] = {sizeof text - 1};
  program = cl.CreateProgramWithSource(context, 1, texts, sizes, &error);
  error = cl.BuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
  if (error) {
    static char log[4096];
    cl.GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
    return printf("%s\n", log), 1;
  }
  printf("%s, driver %s\n%-58s   host  whole\n", name, driver, "");
  const way ways[] = {
      {"one kernel object, 1 operand", "few", 1, 1, 0, 1, 0, 0, 0, GROUPS},
      {"the same, a single group", "few", 1, 1, 0, 1, 0, 0, 0, 1},
      {"its size of a group fixed in the kernel", "fixed", 1, 1, 0, 1, 0, 0, 0, GROUPS},
      {"the driver chooses the size of a group", "few", 1, 1, 0, 0, 0, 0, 0, GROUPS},
      {"200 kernel objects", "few", 1, 1, 1, 1, 0, 0, 0, GROUPS},
      {"6 operands in 1 object", "many", 6, 1, 1, 1, 0, 0, 0, GROUPS},
      {"6 operands in 6 objects", "many", 6, 6, 1, 1, 0, 0, 0, GROUPS},
      {"6 operands, set again every time", "many", 6, 6, 1, 1, 0, 1, 0, GROUPS},
      {"flush after every kernel", "few", 1, 1, 1, 1, 1, 0, 0, GROUPS},
      {"flush after 16", "few", 1, 1, 1, 1, 16, 0, 0, GROUPS},
      {"out of order", "few", 1, 1, 1, 1, 0, 0, 1, GROUPS},
      {"profiling on", "few", 1, 1, 1, 1, 0, 0, CL_QUEUE_PROFILING_ENABLE, GROUPS},
  };
  for (size_t k = 0; k < sizeof ways / sizeof *ways; ++k) measure(&ways[k]);
  if (strstr(name, "NVIDIA")) { /* whose groups all run at once when there are so few; elsewhere this may wait forever */
    stages(16);
    stages(132);
    stages(264);
  }
  return 0;
}
