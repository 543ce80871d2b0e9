/* The part of OpenCL 1.2 that generated networks call, in a library that is opened at run time: programs do not depend on
 * it (on Android it belongs to the vendor), and can say that it is missing. */
#ifndef EC_CL_H
#define EC_CL_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef cl_ulong cl_bits; /* flags */
typedef intptr_t cl_property;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef struct _cl_command_buffer *cl_command_buffer;

enum {
  CL_SUCCESS = 0,
  CL_DEVICE_NOT_FOUND = -1,
  CL_PLATFORM_VERSION = 0x0901,
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE_GPU = 1 << 2,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_IMAGE2D_MAX_HEIGHT = 0x1012,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_PLATFORM = 0x1031,
  CL_DEVICE_COMMAND_BUFFER_CAPABILITIES = 0x12A9,
  CL_DEVICE_COMMAND_BUFFER_QUEUE = 0x12AA, /* properties that a queue must have */
  CL_COMMAND_BUFFER_FLAGS = 0x1293,
  CL_COMMAND_BUFFER_AGAIN = 1 << 0,        /* may be enqueued again before it is done */
  CL_COMMAND_BUFFER_CAN_AGAIN = 1 << 2,
  CL_CONTEXT_PLATFORM = 0x1084,
  CL_QUEUE_CONTEXT = 0x1090,
  CL_QUEUE_DEVICE = 0x1091,
  CL_QUEUE_PROFILING_ENABLE = 1 << 1,
  CL_MEM_READ_WRITE = 1 << 0,
  CL_MEM_READ_ONLY = 1 << 2,
  CL_MEM_COPY_HOST_PTR = 1 << 5,
  CL_RGBA = 0x10B5,
  CL_HALF_FLOAT = 0x10DD,
  CL_FLOAT = 0x10DE,
  CL_MEM_OBJECT_IMAGE2D = 0x10F1,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_PROFILING_COMMAND_START = 0x1282,
  CL_PROFILING_COMMAND_END = 0x1283
};
typedef struct {
  cl_uint order, type;
} cl_image_format;
typedef struct {
  cl_uint kind;
  size_t width, height, depth, array, row_pitch, slice_pitch;
  cl_uint levels, samples;
  cl_mem object;
} cl_image_desc;
#define CL_DEVICE_TYPE_ALL ((cl_bits)0xFFFFFFFFu)

/* Every function: result, name, parameters. */
#define EC_CL_FUNCTIONS(F)                                                                                             \
  F(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                                    \
  F(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))                                      \
  F(cl_int, GetDeviceIDs, (cl_platform_id, cl_bits, cl_uint, cl_device_id *, cl_uint *))                               \
  F(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                          \
  F(cl_context, CreateContext, (const cl_property *, cl_uint, const cl_device_id *, void (*)(const char *, const void *, size_t, void *), void *, cl_int *)) \
  F(cl_int, RetainContext, (cl_context))                                                                               \
  F(cl_int, ReleaseContext, (cl_context))                                                                              \
  F(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bits, cl_int *))                               \
  F(cl_int, GetCommandQueueInfo, (cl_command_queue, cl_uint, size_t, void *, size_t *))                                \
  F(cl_int, RetainCommandQueue, (cl_command_queue))                                                                    \
  F(cl_int, ReleaseCommandQueue, (cl_command_queue))                                                                   \
  F(cl_mem, CreateBuffer, (cl_context, cl_bits, size_t, void *, cl_int *))                                             \
  F(cl_mem, CreateImage, (cl_context, cl_bits, const cl_image_format *, const cl_image_desc *, void *, cl_int *))        \
  F(cl_int, EnqueueCopyBufferToImage, (cl_command_queue, cl_mem, cl_mem, size_t, const size_t *, const size_t *, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, ReleaseMemObject, (cl_mem))                                                                                \
  F(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))               \
  F(cl_program, CreateProgramWithBinary, (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *)) \
  F(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *)) \
  F(cl_int, GetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                           \
  F(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                        \
  F(cl_int, ReleaseProgram, (cl_program))                                                                              \
  F(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *))                                                     \
  F(cl_int, ReleaseKernel, (cl_kernel))                                                                                \
  F(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                                  \
  F(cl_int, EnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, EnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_uint, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, EnqueueReadBuffer, (cl_command_queue, cl_mem, cl_uint, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, EnqueueCopyBuffer, (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, EnqueueFillBuffer, (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, GetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                      \
  F(cl_int, ReleaseEvent, (cl_event))                                                                                  \
  F(void *, GetExtensionFunctionAddressForPlatform, (cl_platform_id, const char *))                                    \
  F(cl_int, Flush, (cl_command_queue))                                                                                 \
  F(cl_int, Finish, (cl_command_queue))

/* Functions of cl_khr_command_buffer: a run is recorded once, and one call enqueues it. */
#define EC_CL_RECORDING(F)                                                                                             \
  F(cl_command_buffer, CreateCommandBuffer, (cl_uint, const cl_command_queue *, const cl_ulong *, cl_int *))           \
  F(cl_int, CommandNDRangeKernel, (cl_command_buffer, cl_command_queue, const cl_ulong *, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, const cl_uint *, cl_uint *, void *)) \
  F(cl_int, FinalizeCommandBuffer, (cl_command_buffer))                                                                \
  F(cl_int, EnqueueCommandBuffer, (cl_uint, cl_command_queue *, cl_command_buffer, cl_uint, const cl_event *, cl_event *)) \
  F(cl_int, ReleaseCommandBuffer, (cl_command_buffer))

#define EC_CL_MEMBER(RESULT, NAME, PARAMETERS) RESULT(*NAME) PARAMETERS;
typedef struct {
  EC_CL_FUNCTIONS(EC_CL_MEMBER)
  EC_CL_RECORDING(EC_CL_MEMBER)
} ec_cl;
#undef EC_CL_MEMBER

/* Fills ``cl``; returns an error message, or NULL. The environment variable EC_OPENCL_LIBRARY names another library. */
static const char *ec_cl_open(ec_cl *cl) {
  static const char *const known[] = {
      "libOpenCL.so.1", "libOpenCL.so", "/vendor/lib64/libOpenCL.so", "/system/vendor/lib64/libOpenCL.so",
      "/vendor/lib64/egl/libGLES_mali.so", "/system/vendor/lib64/egl/libGLES_mali.so"};
  const char *const own = getenv("EC_OPENCL_LIBRARY");
  void *library = own ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
  for (size_t k = 0; !own && !library && k < sizeof known / sizeof *known; ++k)
    library = dlopen(known[k], RTLD_NOW | RTLD_LOCAL);
  if (!library) return "there is no OpenCL library on this machine (libOpenCL.so)";
#define EC_CL_FIND(RESULT, NAME, PARAMETERS)                                                                           \
  *(void **)(void *)&cl->NAME = dlsym(library, "cl" #NAME);                                                            \
  if (!cl->NAME) return "the OpenCL library is older than 1.2: it lacks cl" #NAME;
  EC_CL_FUNCTIONS(EC_CL_FIND)
#undef EC_CL_FIND
  return NULL;
}

/* The first bytes of a buffer as an image of rows of EC_IMAGE_WIDTH texels of four numbers: a view of it where the driver
 * makes one (cl_khr_image2d_from_buffer), else a copy. The buffer has EC_IMAGE_BYTES. */
#define EC_IMAGE_WIDTH 4096
#define EC_IMAGE_ROWS(bytes, texel) (((bytes) + EC_IMAGE_WIDTH * (texel) - 1) / (EC_IMAGE_WIDTH * (texel)))
#define EC_IMAGE_BYTES(bytes) (EC_IMAGE_ROWS(bytes, (size_t)16) * EC_IMAGE_WIDTH * 16)
static inline cl_mem ec_cl_image(const ec_cl *cl, cl_context context, cl_command_queue queue, cl_mem buffer, cl_uint type, size_t texel, size_t bytes, cl_int *error) {
  const cl_image_format format = {CL_RGBA, type};
  const size_t origin[3] = {0, 0, 0}, region[3] = {EC_IMAGE_WIDTH, EC_IMAGE_ROWS(bytes, texel), 1};
  cl_image_desc desc = {CL_MEM_OBJECT_IMAGE2D, region[0], region[1], 0, 0, EC_IMAGE_WIDTH * texel, 0, 0, 0, buffer};
  cl_mem image = cl->CreateImage(context, CL_MEM_READ_ONLY, &format, &desc, NULL, error);
  if (*error == CL_SUCCESS) return image;
  desc.object = NULL;
  desc.row_pitch = 0;
  image = cl->CreateImage(context, CL_MEM_READ_ONLY, &format, &desc, NULL, error);
  if (*error == CL_SUCCESS) *error = cl->EnqueueCopyBufferToImage(queue, buffer, image, 0, origin, region, 0, NULL, NULL);
  return image;
}

/* Finds the functions that record runs; returns whether the device has them and can enqueue a recording that still runs. */
static inline int ec_cl_records(ec_cl *cl, cl_device_id device, const char *extensions) {
  cl_platform_id platform = NULL;
  cl_ulong can = 0, queue = 0;
  if (!strstr(extensions, "cl_khr_command_buffer")) return 0;
  if (cl->GetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != CL_SUCCESS) return 0;
  if (cl->GetDeviceInfo(device, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES, sizeof can, &can, NULL) != CL_SUCCESS) return 0;
  if (cl->GetDeviceInfo(device, CL_DEVICE_COMMAND_BUFFER_QUEUE, sizeof queue, &queue, NULL) != CL_SUCCESS) return 0;
  if (!(can & CL_COMMAND_BUFFER_CAN_AGAIN) || queue) return 0;
#define EC_CL_FIND(RESULT, NAME, PARAMETERS)                                                                           \
  *(void **)(void *)&cl->NAME = cl->GetExtensionFunctionAddressForPlatform(platform, "cl" #NAME "KHR");                \
  if (!cl->NAME) return 0;
  EC_CL_RECORDING(EC_CL_FIND)
#undef EC_CL_FIND
  return 1;
}

#endif
