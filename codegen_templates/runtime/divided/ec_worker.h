/* ec_worker.h: a worker of a divided network, over any transport: it runs the parts that it has, and nothing else. */
#ifndef EC_WORKER_H
#define EC_WORKER_H

#include "ec_message.h"
#include "ec_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An input or output of a part. Of an input, ``state`` is 1 for a state; of an output, the number of the input that it
 * is the next value of, or -1. */
typedef struct {
  size_t bytes;
  int state;
} ec_port;

typedef struct {
  uint32_t number, types, types_out;
  size_t length, length_out, arena_bytes;
  const ec_port *ports; /* inputs, then outputs */
  int inputs, outputs;
  int (*run)(void *const *arguments);
  int (*runs_here)(void);
  const void *weights;
} ec_served;

typedef struct {
  const ec_served *parts;
  int parts_count, rank;
} ec_worker;

/* Memory of a worker, at an address that is a multiple of 4096. */
size_t ec_worker_bytes(const ec_worker *worker);

/* Serves the parts to the host until that says that nothing follows: EC_OK; or until it is gone or sends what is not
 * due. The rest of a message has to come, and an answer to go, in so many milliseconds. */
int ec_worker_serve(const ec_worker *worker, ec_transport *transport, void *memory, int milliseconds);

#ifdef __cplusplus
}
#endif

#endif
