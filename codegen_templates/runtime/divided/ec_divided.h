/* ec_divided.h: the host of a divided network, over any transport.
 *
 * Tables that were made with the network say which part runs on which worker, what it reads and gives, and what has to be
 * added; every length, order and type of a message follows from them. */
#ifndef EC_DIVIDED_H
#define EC_DIVIDED_H

#include "ec_message.h"
#include "ec_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a part reads of a tensor: of each of ``blocks`` blocks of ``stride`` bytes, ``bytes`` from ``begin`` on. */
typedef struct {
  int tensor;
  size_t blocks, stride, begin, bytes;
} ec_read;

typedef struct {
  int worker; /* from 0; its rank is one more */
  uint32_t types, types_out; /* checksums of what it takes and gives */
  size_t length, length_out; /* bytes */
  const ec_read *reads;
  int reads_count;
  const int *writes;
  int writes_count;
} ec_part;

/* How elements are added: integers wrap, floats are added in fp32 or wider and rounded to their type once. */
enum { EC_ADD_BYTES, EC_ADD_16, EC_ADD_32, EC_ADD_64, EC_ADD_F16, EC_ADD_BF16, EC_ADD_F32, EC_ADD_F64 };

/* A tensor at ``offset`` bytes of a frame. One with terms is given by no part: they are added in order. */
typedef struct {
  size_t offset, bytes;
  const int *terms;
  int terms_count, add;
} ec_tensor;

typedef struct {
  const ec_part *parts;
  const ec_tensor *tensors;
  const int *inputs, *outputs;
  int parts_count, tensors_count, inputs_count, outputs_count, workers, in_flight;
  size_t frame_bytes, request_bytes; /* of all tensors, and of the longest request */
} ec_division;

typedef struct ec_host ec_host;

/* Memory of a host, at an address that is a multiple of 64. */
size_t ec_divided_bytes(const ec_division *division);

/* Begins: all workers are there. An answer may take so many milliseconds. */
int ec_divided_open(ec_host *host, const ec_division *division, ec_transport *transport, int milliseconds);

/* Takes a frame in, by its inputs in order, whose memory is free afterwards; EC_FULL takes nothing. */
int ec_divided_push(ec_host *host, const void *const *inputs);

/* Waits for the oldest frame, and writes its outputs in order. Where it fails nothing is written. */
int ec_divided_pull(ec_host *host, void *const *outputs);

/* Both, where no frame is on its way. */
int ec_divided_run(ec_host *host, const void *const *inputs, void *const *outputs);

/* States begin anew, where no frame is on its way. */
int ec_divided_reset(ec_host *host);

/* Workers are told that nothing follows. */
void ec_divided_close(ec_host *host);

/* The worker that was lost, from 0, or -1; and the reason in words. */
int ec_divided_lost(const ec_host *host);
const char *ec_divided_why(const ec_host *host);

#ifdef __cplusplus
}
#endif

#endif
