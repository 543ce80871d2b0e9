/* ec_divided.c: the host of a divided network.
 *
 * Nothing waits for ever, and nothing waits in a circle. A worker has one request at most: the host sends it one only
 * after it has received all of its answer to the last one. So while the host sends to a worker, that worker has nothing
 * left to send, and receives. While the host receives, from whichever worker has something first, each worker that is
 * asked computes, or sends to the host. A worker waits for the host alone, so every wait ends by what the other end does
 * next without waiting; and each has a time-out, for ends that do not keep to this. */
#include "ec_divided.h"

#include <string.h>

#include "ec_scalar.h"

enum { NOBODY = -1 };

/* The answer that is due of a worker: of a part, NOBODY where none is, until a time. */
typedef struct {
  int part;
  int64_t deadline;
} due_answer;

struct ec_host {
  const ec_division *division;
  ec_transport *transport;
  int milliseconds, status, lost, is_busy; /* is_busy: how many answers are due */
  uint64_t pushed, pulled;                 /* frames so far */
  due_answer *due;                         /* by worker */
  uint64_t *asked;                         /* by part: its runs so far, which is the number of the next frame */
  int *left;                               /* by place of a frame: parts that are not done */
  unsigned char *there;                    /* by place and tensor */
  unsigned char *frames;                   /* by place */
  unsigned char *request;
  char words[EC_MOST_WORDS + 1];
};

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Places in the memory of a host, one after the other; the end where there is no memory. */
static size_t laid_out(const ec_division *d, ec_host *host) {
  unsigned char *const base = (unsigned char *)host;
  const size_t frames = (size_t)d->in_flight;
  size_t at = rounded(sizeof *host);
  if (host) host->due = (due_answer *)(void *)(base + at);
  at += rounded((size_t)d->workers * sizeof *host->due);
  if (host) host->asked = (uint64_t *)(void *)(base + at);
  at += rounded((size_t)d->parts_count * sizeof *host->asked);
  if (host) host->left = (int *)(void *)(base + at);
  at += rounded(frames * sizeof *host->left);
  if (host) host->there = base + at;
  at += rounded(frames * (size_t)d->tensors_count);
  if (host) host->frames = base + at;
  at += frames * rounded(d->frame_bytes);
  if (host) host->request = base + at;
  return at + rounded(d->request_bytes);
}

size_t ec_divided_bytes(const ec_division *division) { return laid_out(division, NULL); }

static int lose(ec_host *host, int status, int worker) {
  host->status = status;
  host->lost = worker;
  return status;
}

int ec_divided_open(ec_host *host, const ec_division *division, ec_transport *transport, int milliseconds) {
  if (!host || !division || !transport) return EC_NULL_POINTER;
  memset(host, 0, ec_divided_bytes(division));
  laid_out(division, host);
  host->division = division;
  host->transport = transport;
  host->milliseconds = milliseconds;
  host->lost = NOBODY;
  for (int k = 0; k < division->workers; ++k) host->due[k].part = NOBODY;
  if (transport->rank(transport) != 0) return lose(host, EC_WRONG_RANKS, NOBODY);
  const int status = transport->barrier(transport, milliseconds);
  return status ? lose(host, status, NOBODY) : EC_OK;
}

static size_t place_of(const ec_host *host, uint64_t frame) { return (size_t)(frame % (uint64_t)host->division->in_flight); }

static unsigned char *tensor_of(const ec_host *host, size_t place, int tensor) {
  return host->frames + place * rounded(host->division->frame_bytes) + host->division->tensors[tensor].offset;
}

static unsigned char *there_of(const ec_host *host, size_t place) {
  return host->there + place * (size_t)host->division->tensors_count;
}

/* A term of the integers of a type is added as unsigned ones are: it wraps. */
#define ADD_ALL(type)                                                  \
  do {                                                                 \
    for (size_t i = 0; i < bytes / sizeof(type); ++i) {                \
      type whole, term;                                                \
      memcpy(&whole, to + i * sizeof(type), sizeof(type));             \
      memcpy(&term, from + i * sizeof(type), sizeof(type));            \
      whole = (type)(whole + term);                                    \
      memcpy(to + i * sizeof(type), &whole, sizeof(type));             \
    }                                                                  \
  } while (0)

static void add_to(unsigned char *to, const unsigned char *from, size_t bytes, int add) {
  switch (add) {
    case EC_ADD_BYTES: ADD_ALL(uint8_t); break;
    case EC_ADD_16: ADD_ALL(uint16_t); break;
    case EC_ADD_32: ADD_ALL(uint32_t); break;
    case EC_ADD_64: ADD_ALL(uint64_t); break;
    case EC_ADD_F32: ADD_ALL(float); break;
    default: ADD_ALL(double); break;
  }
}

/* Halves: every element is added in fp32, and rounded once. */
static void add_halves(const ec_host *host, size_t place, const ec_tensor *sum, unsigned char *to) {
  const int is_f16 = sum->add == EC_ADD_F16;
  for (size_t i = 0; i < sum->bytes; i += 2) {
    float whole = 0;
    uint16_t half;
    for (int k = 0; k < sum->terms_count; ++k) {
      memcpy(&half, tensor_of(host, place, sum->terms[k]) + i, 2);
      const float term = is_f16 ? ec_from_f16(half) : ec_from_bf16(half);
      whole = k ? whole + term : term;
    }
    half = is_f16 ? ec_to_f16(whole) : ec_to_bf16(whole);
    memcpy(to + i, &half, 2);
  }
}

/* Adds what is complete: always in the order of the terms, whatever the order of their arrival. */
static void add_up(ec_host *host, size_t place) {
  const ec_division *const d = host->division;
  unsigned char *const there = there_of(host, place);
  for (int s = 0; s < d->tensors_count; ++s) {
    const ec_tensor *const sum = d->tensors + s;
    int is_complete = sum->terms_count > 0 && !there[s];
    for (int k = 0; is_complete && k < sum->terms_count; ++k) is_complete = there[sum->terms[k]];
    if (!is_complete) continue;
    unsigned char *const to = tensor_of(host, place, s);
    if (sum->add == EC_ADD_F16 || sum->add == EC_ADD_BF16) {
      add_halves(host, place, sum, to);
    } else {
      memcpy(to, tensor_of(host, place, sum->terms[0]), sum->bytes);
      for (int k = 1; k < sum->terms_count; ++k)
        add_to(to, tensor_of(host, place, sum->terms[k]), sum->bytes, sum->add);
    }
    there[s] = 1;
  }
}

/* Are all inputs of a part there, of the next frame that it is due for? */
static int is_ready(const ec_host *host, const ec_part *part, uint64_t frame) {
  if (frame >= host->pushed) return 0;
  const unsigned char *const there = there_of(host, place_of(host, frame));
  for (int k = 0; k < part->reads_count; ++k)
    if (!there[part->reads[k].tensor]) return 0;
  return 1;
}

static int ask(ec_host *host, int number) {
  const ec_part *const part = host->division->parts + number;
  const uint64_t frame = host->asked[number];
  const size_t place = place_of(host, frame);
  const ec_head head = {EC_RUN, (uint32_t)number, frame, part->length, part->types};
  unsigned char bytes[EC_HEAD_BYTES];
  unsigned char *to = host->request;
  due_answer *const due = host->due + part->worker;
  due->part = number;
  due->deadline = host->milliseconds < 0 ? -1 : ec_transport_now() + host->milliseconds;
  ++host->is_busy;
  ++host->asked[number];
  ec_message_pack(bytes, &head);
  const ec_span first = {bytes, sizeof bytes};
  int status = EC_OK, is_first = 1;
  for (int k = 0; k < part->reads_count && !status; ++k) {
    const ec_read *const read = part->reads + k;
    const unsigned char *const from = tensor_of(host, place, read->tensor);
    for (size_t b = 0; b < read->blocks; ++b) memcpy(to + b * read->bytes, from + b * read->stride + read->begin, read->bytes);
    to += read->blocks * read->bytes;
  }
  to = host->request;
  for (int k = 0; k < part->reads_count && !status; ++k) {
    const ec_span spans[2] = {first, {to, part->reads[k].blocks * part->reads[k].bytes}};
    status = host->transport->send(host->transport, part->worker + 1, spans + !is_first, 1 + is_first, host->milliseconds);
    to += spans[1].bytes;
    is_first = 0;
  }
  if (is_first) status = host->transport->send(host->transport, part->worker + 1, &first, 1, host->milliseconds);
  return status ? lose(host, status, part->worker) : EC_OK;
}

/* Asks every worker that has nothing to do for the part of the oldest frame that is ready. */
static int feed(ec_host *host) {
  const ec_division *const d = host->division;
  for (int w = 0; w < d->workers; ++w) {
    int best = NOBODY;
    if (host->due[w].part != NOBODY) continue;
    for (int p = 0; p < d->parts_count; ++p)
      if (d->parts[p].worker == w && (best == NOBODY || host->asked[p] < host->asked[best]) &&
          is_ready(host, d->parts + p, host->asked[p]))
        best = p;
    const int status = best == NOBODY ? EC_OK : ask(host, best);
    if (status) return status;
  }
  return EC_OK;
}

/* The first answer that is late if none comes: of a worker, until a time. */
static int64_t first_deadline(const ec_host *host, int *worker) {
  int64_t first = -1;
  for (int w = 0; w < host->division->workers; ++w)
    if (host->due[w].part != NOBODY && (*worker == NOBODY || host->due[w].deadline < first)) {
      first = host->due[w].deadline;
      *worker = w;
    }
  return first;
}

/* The words of a worker whose part failed. */
static int failed(ec_host *host, const ec_head *head, int from, int64_t deadline) {
  const size_t bytes = (size_t)head->length;
  const int status = bytes ? host->transport->receive(host->transport, &from, host->words, bytes, ec_transport_left(deadline)) : EC_OK;
  host->words[status ? 0 : bytes] = 0;
  for (char *c = host->words; *c; ++c)
    if ((unsigned char)*c < ' ') *c = ' ';
  return lose(host, status ? status : EC_PART_FAILED, from - 1);
}

/* Takes one answer in; where it is not waiting, EC_LATE says that none has begun to come, which is no failure. */
static int take(ec_host *host, int is_waiting) {
  unsigned char bytes[EC_HEAD_BYTES];
  ec_head head;
  int late = NOBODY, from = EC_ANY;
  const int64_t first = first_deadline(host, &late);
  int status = host->transport->receive(host->transport, &from, bytes, sizeof bytes, is_waiting ? ec_transport_left(first) : 0);
  if (status == EC_LATE && from == EC_ANY && !is_waiting) return EC_LATE;
  if (status) return lose(host, status, from == EC_ANY ? late : from - 1);
  due_answer *const due = host->due + (from - 1);
  if (!ec_message_unpack(&head, bytes) || due->part == NOBODY) return lose(host, EC_GARBAGE, from - 1);
  const ec_part *const part = host->division->parts + due->part;
  const uint64_t frame = host->asked[due->part] - 1;
  const uint32_t number = (uint32_t)due->part;
  if (head.length <= EC_MOST_WORDS && ec_message_is(&head, EC_FAILED, number, frame, head.length, 0))
    return failed(host, &head, from, due->deadline);
  if (!ec_message_is(&head, EC_DONE, number, frame, part->length_out, part->types_out)) return lose(host, EC_GARBAGE, from - 1);
  const size_t place = place_of(host, frame);
  for (int k = 0; k < part->writes_count; ++k) {
    const size_t own = host->division->tensors[part->writes[k]].bytes;
    if (!own) continue;
    status = host->transport->receive(host->transport, &from, tensor_of(host, place, part->writes[k]), own, ec_transport_left(due->deadline));
    if (status) return lose(host, status, from - 1);
  }
  unsigned char tail[EC_TAIL_BYTES];
  status = host->transport->receive(host->transport, &from, tail, sizeof tail, ec_transport_left(due->deadline));
  if (status) return lose(host, status, from - 1);
  if (!ec_message_is_tail(tail, frame)) return lose(host, EC_GARBAGE, from - 1);
  for (int k = 0; k < part->writes_count; ++k) there_of(host, place)[part->writes[k]] = 1;
  add_up(host, place);
  --host->left[place];
  --host->is_busy;
  due->part = NOBODY;
  return feed(host);
}

int ec_divided_push(ec_host *host, const void *const *inputs) {
  if (!host || !inputs) return EC_NULL_POINTER;
  const ec_division *const d = host->division;
  for (int k = 0; k < d->inputs_count; ++k)
    if (!inputs[k]) return EC_NULL_POINTER;
  if (host->status) return EC_LOST;
  if (host->pushed - host->pulled == (uint64_t)d->in_flight) return EC_FULL;
  const size_t place = place_of(host, host->pushed);
  memset(there_of(host, place), 0, (size_t)d->tensors_count);
  for (int k = 0; k < d->inputs_count; ++k) {
    memcpy(tensor_of(host, place, d->inputs[k]), inputs[k], d->tensors[d->inputs[k]].bytes);
    there_of(host, place)[d->inputs[k]] = 1;
  }
  host->left[place] = d->parts_count;
  ++host->pushed;
  int status = feed(host);
  while (!status && host->is_busy) status = take(host, 0);
  return status == EC_LATE && !host->status ? EC_OK : status;
}

int ec_divided_pull(ec_host *host, void *const *outputs) {
  if (!host || !outputs) return EC_NULL_POINTER;
  const ec_division *const d = host->division;
  for (int k = 0; k < d->outputs_count; ++k)
    if (!outputs[k]) return EC_NULL_POINTER;
  if (host->status) return EC_LOST;
  if (host->pushed == host->pulled) return EC_EMPTY;
  const size_t place = place_of(host, host->pulled);
  while (host->left[place]) {
    const int status = take(host, 1);
    if (status) return status;
  }
  for (int k = 0; k < d->outputs_count; ++k)
    memcpy(outputs[k], tensor_of(host, place, d->outputs[k]), d->tensors[d->outputs[k]].bytes);
  ++host->pulled;
  return EC_OK;
}

int ec_divided_run(ec_host *host, const void *const *inputs, void *const *outputs) {
  if (!host || !inputs || !outputs) return EC_NULL_POINTER;
  for (int k = 0; k < host->division->outputs_count; ++k)
    if (!outputs[k]) return EC_NULL_POINTER;
  if (!host->status && host->pushed != host->pulled) return EC_BUSY;
  const int status = ec_divided_push(host, inputs);
  return status ? status : ec_divided_pull(host, outputs);
}

static int tell_all(ec_host *host, uint32_t kind) {
  const ec_head head = {kind, 0, 0, 0, 0};
  unsigned char bytes[EC_HEAD_BYTES];
  const ec_span span = {bytes, sizeof bytes};
  int status = EC_OK;
  ec_message_pack(bytes, &head);
  for (int w = 0; w < host->division->workers && !status; ++w) {
    status = host->transport->send(host->transport, w + 1, &span, 1, host->milliseconds);
    if (status) lose(host, status, w);
  }
  return status;
}

int ec_divided_reset(ec_host *host) {
  if (!host) return EC_NULL_POINTER;
  if (host->status) return EC_LOST;
  return host->pushed != host->pulled ? EC_BUSY : tell_all(host, EC_RESET);
}

void ec_divided_close(ec_host *host) {
  while (!host->status && host->is_busy) take(host, 1); /* frames that nobody pulled: no worker is left sending */
  if (!host->status) tell_all(host, EC_END);
  if (!host->status) host->status = EC_LOST;
}

int ec_divided_lost(const ec_host *host) { return host->lost; }

const char *ec_divided_why(const ec_host *host) { return host->words[0] ? host->words : ec_transport_told(host->status); }
