/* ec_worker.c: a worker of a divided network.
 *
 * It receives a request in full, runs the part, and sends the answer in full, in turn: it waits for the host alone, which
 * has no other request for it on the way (ec_divided.c has why nothing waits in a circle). */
#define _POSIX_C_SOURCE 200809L
#include "ec_worker.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { PAGE = 4096, AT_ONCE = 16 };

static size_t rounded(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static int is_state(const ec_served *part, int port) {
  return port < part->inputs ? part->ports[port].state == 1 : part->ports[port].state >= 0;
}

/* Memory: the numbers of runs, pointers, the arena, what parts take and give in turn, and the states of all. */
typedef struct {
  size_t arguments, arena, ports, states, end;
} places;

static places laid_out(const ec_worker *worker) {
  size_t most = 0, arena = 1, ports = 0, states = 0;
  for (int p = 0; p < worker->parts_count; ++p) {
    const ec_served *const part = worker->parts + p;
    size_t own = 0;
    for (int k = 0; k < part->inputs + part->outputs; ++k) {
      const size_t bytes = (part->ports[k].bytes + 63) / 64 * 64;
      if (!is_state(part, k)) own += bytes;
      else if (k < part->inputs) states += bytes;
    }
    ports = own > ports ? own : ports;
    arena = part->arena_bytes > arena ? part->arena_bytes : arena;
    most = (size_t)(part->inputs + part->outputs) > most ? (size_t)(part->inputs + part->outputs) : most;
  }
  places at;
  at.arguments = rounded((size_t)worker->parts_count * sizeof(uint64_t));
  at.arena = at.arguments + rounded((most + 3) * sizeof(void *));
  at.ports = at.arena + rounded(arena);
  at.states = at.ports + rounded(ports);
  at.end = at.states + rounded(states);
  return at;
}

size_t ec_worker_bytes(const ec_worker *worker) { return laid_out(worker).end; }

/* The arguments of a part: its weights, the arena, no pool, inputs and outputs. A state and its next value are one. */
static void bind(const ec_worker *worker, const ec_served *part, const places *at, unsigned char *memory, void **arguments) {
  unsigned char *port = memory + at->ports, *state = memory + at->states;
  for (const ec_served *before = worker->parts; before != part; ++before)
    for (int k = 0; k < before->inputs; ++k)
      if (is_state(before, k)) state += (before->ports[k].bytes + 63) / 64 * 64;
  arguments[0] = (void *)(uintptr_t)part->weights;
  arguments[1] = memory + at->arena;
  arguments[2] = NULL;
  for (int k = 0; k < part->inputs + part->outputs; ++k) {
    const size_t bytes = (part->ports[k].bytes + 63) / 64 * 64;
    unsigned char **const end = is_state(part, k) ? &state : &port;
    if (k >= part->inputs && is_state(part, k)) {
      arguments[3 + k] = arguments[3 + part->ports[k].state];
    } else {
      arguments[3 + k] = *end;
      *end += bytes;
    }
  }
}

static int send_words(ec_transport *transport, const ec_served *part, uint64_t run, int result, int milliseconds) {
  char words[80];
  unsigned char bytes[EC_HEAD_BYTES];
  const int length = snprintf(words, sizeof words, "the run returned status %d", result);
  const ec_head head = {EC_FAILED, part->number, run, (uint64_t)length, 0};
  const ec_span spans[2] = {{bytes, sizeof bytes}, {words, (size_t)length}};
  ec_message_pack(bytes, &head);
  return transport->send(transport, 0, spans, 2, milliseconds);
}

static int answer(ec_transport *transport, const ec_served *part, uint64_t run, void **arguments, int milliseconds) {
  const int64_t deadline = milliseconds < 0 ? -1 : ec_transport_now() + milliseconds;
  const ec_head head = {EC_DONE, part->number, run, part->length_out, part->types_out};
  unsigned char bytes[EC_HEAD_BYTES], tail[EC_TAIL_BYTES];
  ec_span spans[AT_ONCE] = {{bytes, sizeof bytes}};
  int count = 1, status = EC_OK;
  ec_message_pack(bytes, &head);
  for (int k = part->inputs; k < part->inputs + part->outputs && !status; ++k) {
    if (is_state(part, k) || !part->ports[k].bytes) continue;
    spans[count].data = arguments[3 + k];
    spans[count++].bytes = part->ports[k].bytes;
    if (count == AT_ONCE) {
      status = transport->send(transport, 0, spans, count, ec_transport_left(deadline));
      count = 0;
    }
  }
  if (status) return status;
  ec_message_pack_tail(tail, run);
  spans[count].data = tail;
  spans[count++].bytes = sizeof tail;
  return transport->send(transport, 0, spans, count, ec_transport_left(deadline));
}

static int send_memory(ec_transport *transport, int milliseconds) {
  struct rusage used;
  uint64_t resident = getrusage(RUSAGE_SELF, &used) == 0 ? (uint64_t)used.ru_maxrss : 0;
#ifndef __APPLE__
  resident *= 1024;
#endif
  const ec_head head = {EC_TOLD, 0, 0, 8, 0};
  unsigned char bytes[EC_HEAD_BYTES], number[8];
  const ec_span spans[2] = {{bytes, sizeof bytes}, {number, sizeof number}};
  ec_message_pack(bytes, &head);
  for (int k = 0; k < 8; ++k) number[k] = (unsigned char)(resident >> (56 - 8 * k));
  return transport->send(transport, 0, spans, 2, milliseconds);
}

int ec_worker_serve(const ec_worker *worker, ec_transport *transport, void *memory, int milliseconds) {
  if (!worker || !transport || !memory) return EC_NULL_POINTER;
  const places at = laid_out(worker);
  unsigned char *const base = memory;
  uint64_t *const runs = memory;
  void **const arguments = (void **)(void *)(base + at.arguments);
  int from = 0;
  for (int p = 0; p < worker->parts_count; ++p)
    if (!worker->parts[p].runs_here()) return EC_WRONG_CPU;
  memset(memory, 0, at.end);
  int status = transport->barrier(transport, EC_FOREVER);
  while (!status) {
    unsigned char bytes[EC_HEAD_BYTES];
    ec_head head;
    status = transport->receive(transport, &from, bytes, sizeof bytes, EC_FOREVER);
    if (status) return status;
    if (!ec_message_unpack(&head, bytes)) return EC_GARBAGE;
    if (head.kind == EC_ASK || head.kind == EC_RESET || head.kind == EC_END) {
      if (!ec_message_is(&head, head.kind, 0, 0, 0, 0)) return EC_GARBAGE;
      if (head.kind == EC_END) return EC_OK;
      if (head.kind == EC_RESET) memset(base + at.states, 0, at.end - at.states);
      if (head.kind == EC_ASK) status = send_memory(transport, milliseconds);
      continue;
    }
    int p = 0;
    while (p < worker->parts_count && worker->parts[p].number != head.part) ++p;
    if (p == worker->parts_count) return EC_GARBAGE;
    const ec_served *const part = worker->parts + p;
    if (!ec_message_is(&head, EC_RUN, part->number, runs[p], part->length, part->types)) return EC_GARBAGE;
    bind(worker, part, &at, base, arguments);
    const int64_t deadline = milliseconds < 0 ? -1 : ec_transport_now() + milliseconds;
    for (int k = 0; k < part->inputs; ++k) {
      if (is_state(part, k) || !part->ports[k].bytes) continue;
      status = transport->receive(transport, &from, arguments[3 + k], part->ports[k].bytes, ec_transport_left(deadline));
      if (status) return status;
    }
    const int result = part->run(arguments);
    status = result ? send_words(transport, part, runs[p], result, milliseconds)
                    : answer(transport, part, runs[p], arguments, milliseconds);
    ++runs[p];
  }
  return status;
}
