/* Runs a network by CMSIS-NN's kernels, one call a layer, and tells the nanoseconds of a run: what boards.py holds our
 * instructions against. Which layers there are is in layers.h, which cmsis_nn.py writes; a call is the one that
 * TensorFlow Lite Micro's kernels make for the operator, and what those prepare once is prepared before the clock starts.
 *
 *     cmsis_nn inputs.bin outputs.bin
 */
#include <arm_nnfunctions.h>
#include <stdio.h>
#include <stdlib.h>

#include "ec_board.h"

enum kind { CONV, DEPTHWISE, FULLY_CONNECTED, AVERAGE_POOL, ADD, SOFTMAX };

struct layer {
  enum kind kind;
  const int8_t *in, *second;
  int8_t *out;
  const int8_t *weights;
  const int32_t *bias;
  int32_t *multipliers, *shifts; /* of the result: one, or one a channel; of a sum also of its operands, behind it */
  cmsis_nn_dims in_dims, filter_dims, bias_dims, out_dims;
  int32_t in_zero, second_zero, out_zero, least, most;
  cmsis_nn_tile stride, padding;
  int32_t diff_min; /* of a softmax: differences below it count nothing */
  void *scratch;
};

#include "layers.h"

#define LAYERS (sizeof layers / sizeof layers[0])

static cmsis_nn_conv_params conv_params(const struct layer *l) {
  return (cmsis_nn_conv_params){-l->in_zero, l->out_zero, l->stride, l->padding, {1, 1}, {l->least, l->most}};
}

static cmsis_nn_dw_conv_params depthwise_params(const struct layer *l) {
  const int32_t times = l->out_dims.c / l->in_dims.c;
  return (cmsis_nn_dw_conv_params){-l->in_zero, l->out_zero, times, l->stride, l->padding, {1, 1}, {l->least, l->most}};
}

/* What a layer has to have beside its operands. */
static void prepare(struct layer *l) {
  int32_t bytes = 0;
  if (l->kind == CONV) {
    const cmsis_nn_conv_params params = conv_params(l);
    bytes = arm_convolve_wrapper_s8_get_buffer_size(&params, &l->in_dims, &l->filter_dims, &l->out_dims);
  } else if (l->kind == DEPTHWISE) {
    const cmsis_nn_dw_conv_params params = depthwise_params(l);
    bytes = arm_depthwise_conv_wrapper_s8_get_buffer_size(&params, &l->in_dims, &l->filter_dims, &l->out_dims);
  } else if (l->kind == FULLY_CONNECTED) {
    bytes = arm_fully_connected_s8_get_buffer_size(&l->filter_dims);
  } else if (l->kind == AVERAGE_POOL) {
    bytes = arm_avgpool_s8_get_buffer_size(l->out_dims.w, l->in_dims.c);
  }
  if (bytes > 0 && !(l->scratch = calloc(1, (size_t)bytes))) exit(2);
  if (l->kind == FULLY_CONNECTED && bytes > 0)
    arm_vector_sum_s8(l->scratch, l->filter_dims.n, l->out_dims.c, l->weights, -l->in_zero, 0, l->bias);
}

static arm_cmsis_nn_status run(const struct layer *l) {
  const cmsis_nn_context context = {l->scratch, 0};
  const cmsis_nn_per_channel_quant_params factors = {l->multipliers, l->shifts};
  switch (l->kind) {
    case CONV: {
      const cmsis_nn_conv_params params = conv_params(l);
      return arm_convolve_wrapper_s8(&context, &params, &factors, &l->in_dims, l->in, &l->filter_dims, l->weights,
                                     &l->bias_dims, l->bias, &l->out_dims, l->out);
    }
    case DEPTHWISE: {
      const cmsis_nn_dw_conv_params params = depthwise_params(l);
      return arm_depthwise_conv_wrapper_s8(&context, &params, &factors, &l->in_dims, l->in, &l->filter_dims, l->weights,
                                           &l->bias_dims, l->bias, &l->out_dims, l->out);
    }
    case FULLY_CONNECTED: {
      const cmsis_nn_fc_params params = {-l->in_zero, 0, l->out_zero, {l->least, l->most}};
      const cmsis_nn_per_tensor_quant_params factor = {l->multipliers[0], l->shifts[0]};
      return arm_fully_connected_s8(&context, &params, &factor, &l->in_dims, l->in, &l->filter_dims, l->weights,
                                    &l->bias_dims, l->bias, &l->out_dims, l->out);
    }
    case AVERAGE_POOL: {
      const cmsis_nn_pool_params params = {l->stride, l->padding, {l->least, l->most}};
      return arm_avgpool_s8(&context, &params, &l->in_dims, l->in, &l->filter_dims, &l->out_dims, l->out);
    }
    case ADD:
      return arm_elementwise_add_s8(l->in, l->second, -l->in_zero, l->multipliers[1], l->shifts[1], -l->second_zero,
                                    l->multipliers[2], l->shifts[2], 20, l->out, l->out_zero, l->multipliers[0],
                                    l->shifts[0], l->least, l->most,
                                    l->out_dims.n * l->out_dims.h * l->out_dims.w * l->out_dims.c);
    case SOFTMAX:
      arm_softmax_s8(l->in, l->in_dims.n, l->in_dims.c, l->multipliers[0], l->shifts[0], l->diff_min, l->out);
      return ARM_CMSIS_NN_SUCCESS;
  }
  return ARM_CMSIS_NN_NO_IMPL_ERROR;
}

int main(int argc, char **argv) {
  FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
  if (!file || fread(NET_INPUT, 1, sizeof NET_INPUT, file) != sizeof NET_INPUT) return 2;
  fclose(file);
  for (size_t k = 0; k < LAYERS; ++k) prepare(&layers[k]);
  const int64_t before = ec_board_nanoseconds();
  for (size_t k = 0; k < LAYERS; ++k)
    if (run(&layers[k]) != ARM_CMSIS_NN_SUCCESS) return 3;
  const int64_t after = ec_board_nanoseconds();
  file = fopen(argv[2], "wb");
  if (!file || fwrite(NET_OUTPUT, 1, sizeof NET_OUTPUT, file) != sizeof NET_OUTPUT || fclose(file)) return 2;
  printf("nanoseconds %ld\n", (long)(after - before));
  return 0;
}
