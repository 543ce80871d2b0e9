/* Rows of linear bounds on their way back through a network: edgec/certify/descent.py.

   A group has up to WIDTH rows of one box, one in each lane; a row and its negative pass as one until the first bend.
   Rows are stored by element, [elements][lanes], so that weights are numbers which all lanes share. A row behind
   convolutions is a part of a value, which begins elsewhere in each lane. At a sum of two values rows are kept for
   the second one, in a slot, until they have passed the first; where the two ways meet, both are added up. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 8
#define TALL 8
#elif defined(__AVX__)
#define LANES 4
#define TALL 4
#else
#define LANES 2
#define TALL 8
#endif
#define VECTORS 3
#define WIDTH (LANES * VECTORS)

typedef double vec __attribute__((vector_size(LANES * 8), aligned(8)));
typedef int64_t mask __attribute__((vector_size(LANES * 8), aligned(8)));

enum { POINT, DENSE, CONV, PAD, PLACE, KEEP, TURN, MEET };
#define SLOTS 4

/* Facts are [boxes][elements], or null where they are zero. Elements are channels times height times width of the
   rows that a step is given: of a part where `is_part`, of the value, which is `value_height` by `value_width`, else. */
typedef struct {
    int64_t kind, is_part, bends, splits;
    int64_t channels, height, width, value_height, value_width;
    int64_t into_channels, into_height, into_width, into_value_height, into_value_width;
    int64_t kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x, before_y, before_x, slot;
    const double *before_bias, *before_sizes, *low, *high, *offset_low, *offset_high, *bias, *sizes;
    const double *weights;
} step;

typedef struct {
    double *rows, *next;      /* [elements][vectors][LANES] */
    double *slots[SLOTS];     /* the same, of another value */
    int32_t *active;          /* numbers of elements that are not zero in all lanes */
    int64_t active_count;
    vec constant[VECTORS], slack[VECTORS], mass[VECTORS], least[VECTORS];
    int64_t begin_y[WIDTH], begin_x[WIDTH];
    int64_t box, first, count; /* lanes are rows first to first + count */
    int vectors;
} group;

static inline int64_t elements_into(const step *s) { return s->into_channels * s->into_height * s->into_width; }
static inline vec chosen(mask m, vec a, vec b) { return (vec)(((mask)a & m) | ((mask)b & ~m)); }
static inline vec magnitude(vec x) { return (vec)((mask)x & ((mask){} + INT64_MAX)); }
static inline vec all(double x) { return x - (vec){}; }

/* Is a lane not zero? */
static inline int any_lane(mask m) {
    int64_t found = 0;
    for (int l = 0; l < LANES; l++) found |= m[l];
    return found != 0;
}

/* What is known of an element in all lanes: of whole values one number. */
static inline __attribute__((always_inline)) vec fact(const double *facts, const int64_t *place) {
    vec found = {};
    for (int l = 0; l < LANES; l++) found[l] = facts[place[l]];
    return found;
}

/* Elementwise: the constants and sizes of the rows as they are, slopes by their signs, and those of what they become. */
static inline __attribute__((always_inline)) void point_of(
    const step *s, group *g, const int nv, const int is_part, const int has_all) {
    const int64_t inner = s->height * s->width, all_of = s->channels * s->value_height * s->value_width;
    const int64_t own = s->value_height * s->value_width, base = g->box * all_of;
    const double *before_bias = s->before_bias, *before_sizes = s->before_sizes ? s->before_sizes + base : 0;
    const double *bias = s->bias, *sizes = s->sizes ? s->sizes + base : 0;
    const double *low = s->low ? s->low + base : 0, *high = s->high ? s->high + base : 0;
    const double *offset_low = s->offset_low ? s->offset_low + base : 0;
    const double *offset_high = s->offset_high ? s->offset_high + base : 0;
    vec constant[VECTORS] = {}, offset[VECTORS] = {}, later[VECTORS] = {}, slack[VECTORS] = {};
    int64_t place[WIDTH];
    int64_t active = 0;
#define FACT(x) (is_part ? fact(x, at) : all((x)[e]))
    for (int64_t k = 0; k < inner; k++) {
        if (is_part) {
            const int64_t y = k / s->width, x = k % s->width;
            for (int l = 0; l < nv * LANES; l++) {
                const int64_t py = g->begin_y[l] + y, px = g->begin_x[l] + x;
                const int inside = py >= 0 && px >= 0 && py < s->value_height && px < s->value_width;
                place[l] = inside ? py * s->value_width + px : 0; /* rows are zero where it is not */
            }
        }
        for (int64_t c = 0; c < s->channels; c++) {
            const int64_t e = c * inner + k;
            double *here = g->rows + e * nv * LANES;
            if (!is_part && (has_all || low) && low[e] == 0 && high[e] == 0 &&
                !((has_all || offset_low) && (offset_low[e] != 0 || offset_high[e] != 0))) {
                for (int v = 0; v < nv; v++) { /* nothing passes */
                    const vec r = *(vec *)(here + v * LANES);
                    if (!has_all && before_bias) constant[v] += r * before_bias[e];
                    if (has_all || before_sizes) slack[v] += magnitude(r) * before_sizes[e];
                    *(vec *)(here + v * LANES) = (vec){};
                }
                continue;
            }
            mask any = {};
            for (int v = 0; v < nv; v++) {
                int64_t at[LANES];
                if (is_part)
                    for (int l = 0; l < LANES; l++) at[l] = c * own + place[v * LANES + l];
                vec r = *(vec *)(here + v * LANES);
                if (!has_all && before_bias) constant[v] += r * FACT(before_bias);
                if (has_all || before_sizes) slack[v] += magnitude(r) * FACT(before_sizes);
                if (has_all || low) {
                    const mask up = r > 0;
                    if (has_all || offset_low) offset[v] += r * chosen(up, FACT(offset_low), FACT(offset_high));
                    r *= has_all || s->bends ? chosen(up, FACT(low), FACT(high)) : FACT(low);
                    *(vec *)(here + v * LANES) = r;
                }
                if (has_all || bias) later[v] += r * FACT(bias);
                if (has_all || sizes) slack[v] += magnitude(r) * FACT(sizes);
                if (is_part || !(has_all || low)) any |= r != 0;
            }
            g->active[active] = (int32_t)e;
            active += !is_part && (has_all || low) ? 1 : any_lane(any);
        }
    }
#undef FACT
    g->active_count = active;
    for (int v = 0; v < nv; v++) {
        g->constant[v] += constant[v] + offset[v] + later[v];
        g->mass[v] += magnitude(constant[v]) + magnitude(offset[v]) + magnitude(later[v]);
        g->slack[v] += slack[v];
    }
}

/* TALL results of products with `count` rows, whose numbers are in `active`; weights are in panels of TALL. */
static inline __attribute__((always_inline)) void panel_of(
    const double *weights, const double *rows, const int32_t *active, int64_t count, vec sum[TALL][VECTORS],
    const int nv) {
    vec kept[TALL][VECTORS];
    for (int i = 0; i < TALL; i++)
        for (int v = 0; v < nv; v++) kept[i][v] = (vec){};
    for (int64_t k = 0; k < count; k++) {
        const double *x = rows + (int64_t)active[k] * nv * LANES, *w = weights + (int64_t)active[k] * TALL;
        for (int i = 0; i < TALL; i++)
            for (int v = 0; v < nv; v++) kept[i][v] += w[i] * *(const vec *)(x + v * LANES);
    }
    for (int i = 0; i < TALL; i++)
        for (int v = 0; v < nv; v++) sum[i][v] = kept[i][v];
}

static inline __attribute__((always_inline)) void dense_panel(
    const step *s, group *g, int64_t panel, const int nv, const double *middle, const double *radius) {
    const int64_t from = s->channels * s->height * s->width, into = elements_into(s);
    const int64_t tall = into - panel * TALL < TALL ? into - panel * TALL : TALL;
    vec sum[TALL][VECTORS];
    panel_of(s->weights + panel * from * TALL, g->rows, g->active, g->active_count, sum, nv);
    if (middle) { /* the inputs: nothing is stored */
        middle += g->box * into + panel * TALL, radius += g->box * into + panel * TALL;
        for (int i = 0; i < tall; i++)
            for (int v = 0; v < nv; v++) g->least[v] += sum[i][v] * middle[i] - magnitude(sum[i][v]) * radius[i];
        return;
    }
    for (int i = 0; i < tall; i++)
        for (int v = 0; v < nv; v++) *(vec *)(g->next + ((panel * TALL + i) * nv + v) * LANES) = sum[i][v];
}

/* A convolution transposed: what each element of the operand is read by. Weights are [panel][tap][output][TALL]. */
static inline __attribute__((always_inline)) void conv_of(const step *s, group *g, const int nv, int32_t *work) {
    const int64_t inner = s->height * s->width, outputs = s->channels, taps = s->kernel_y * s->kernel_x;
    const int64_t into = s->into_channels, space = s->into_height * s->into_width;
    int32_t *counts = work, *lists = work + inner; /* of each place, the outputs that are not zero */
    memset(counts, 0, inner * sizeof *counts);
    for (int64_t k = 0; k < g->active_count; k++) {
        const int64_t place = g->active[k] % inner;
        lists[place * outputs + counts[place]++] = (int32_t)(g->active[k] / inner);
    }
    for (int64_t panel = 0; panel * TALL < into; panel++) {
        const int64_t tall = into - panel * TALL < TALL ? into - panel * TALL : TALL;
        const double *weights = s->weights + panel * taps * outputs * TALL;
        for (int64_t k = 0; k < space; k++) {
            const int64_t y = k / s->into_width, x = k % s->into_width;
            vec sum[TALL][VECTORS];
            for (int i = 0; i < TALL; i++)
                for (int v = 0; v < nv; v++) sum[i][v] = (vec){};
            for (int64_t ky = 0; ky < s->kernel_y; ky++) {
                const int64_t ry = y - ky * s->dilation_y, py = ry / s->stride_y;
                if (ry < 0 || ry % s->stride_y || py >= s->height) continue;
                for (int64_t kx = 0; kx < s->kernel_x; kx++) {
                    const int64_t rx = x - kx * s->dilation_x, px = rx / s->stride_x;
                    if (rx < 0 || rx % s->stride_x || px >= s->width) continue;
                    const int64_t place = py * s->width + px;
                    const double *tap = weights + (ky * s->kernel_x + kx) * outputs * TALL;
                    for (int32_t o = 0; o < counts[place]; o++) {
                        const int64_t output = lists[place * outputs + o];
                        const double *r = g->rows + (output * inner + place) * nv * LANES, *w = tap + output * TALL;
                        for (int i = 0; i < TALL; i++)
                            for (int v = 0; v < nv; v++) sum[i][v] += w[i] * *(const vec *)(r + v * LANES);
                    }
                }
            }
            for (int i = 0; i < tall; i++)
                for (int v = 0; v < nv; v++)
                    *(vec *)(g->next + (((panel * TALL + i) * space + k) * nv + v) * LANES) = sum[i][v];
        }
    }
    if (s->is_part)
        for (int l = 0; l < nv * LANES; l++) g->begin_y[l] *= s->stride_y, g->begin_x[l] *= s->stride_x;
}

/* A padded value without what was put around it. */
static void pad_of(const step *s, group *g) {
    const int64_t lanes = g->vectors * LANES;
    if (s->is_part) {
        for (int64_t l = 0; l < lanes; l++) g->begin_y[l] -= s->before_y, g->begin_x[l] -= s->before_x;
        for (int64_t k = 0; k < s->height * s->width; k++)
            for (int64_t l = 0; l < lanes; l++) {
                const int64_t y = g->begin_y[l] + k / s->width, x = g->begin_x[l] + k % s->width;
                if (y >= 0 && x >= 0 && y < s->into_value_height && x < s->into_value_width) continue;
                for (int64_t c = 0; c < s->channels; c++) g->rows[(c * s->height * s->width + k) * lanes + l] = 0;
            }
        return;
    }
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t y = 0; y < s->into_height; y++)
            memcpy(g->next + (c * s->into_height + y) * s->into_width * lanes,
                   g->rows + ((c * s->height + y + s->before_y) * s->width + s->before_x) * lanes,
                   s->into_width * lanes * sizeof(double));
}

/* All of a value, from a part. */
static void place_of(const step *s, group *g) {
    const int64_t lanes = g->vectors * LANES, own = s->value_height * s->value_width;
    memset(g->next, 0, s->channels * own * lanes * sizeof(double));
    for (int64_t k = 0; k < s->height * s->width; k++)
        for (int64_t l = 0; l < lanes; l++) {
            const int64_t y = g->begin_y[l] + k / s->width, x = g->begin_x[l] + k % s->width;
            if (y < 0 || x < 0 || y >= s->value_height || x >= s->value_width) continue;
            for (int64_t c = 0; c < s->channels; c++)
                g->next[(c * own + y * s->value_width + x) * lanes + l] =
                    g->rows[(c * s->height * s->width + k) * lanes + l];
        }
}

static inline __attribute__((always_inline)) void least_of(
    const step *s, group *g, const int nv, const double *middle, const double *radius) {
    const int64_t inner = s->height * s->width, own = s->value_height * s->value_width;
    middle += g->box * s->channels * own, radius += g->box * s->channels * own;
    for (int64_t e = 0; e < s->channels * inner; e++) {
        const int64_t c = e / inner, y = e % inner / s->width, x = e % s->width;
        for (int v = 0; v < nv; v++) {
            const vec r = *(vec *)(g->rows + (e * nv + v) * LANES);
            int64_t at[LANES];
            for (int l = 0; l < LANES && s->is_part; l++) {
                const int64_t py = g->begin_y[v * LANES + l] + y, px = g->begin_x[v * LANES + l] + x;
                const int inside = py >= 0 && px >= 0 && py < s->value_height && px < s->value_width;
                at[l] = inside ? c * own + py * s->value_width + px : 0;
            }
            const vec m = s->is_part ? fact(middle, at) : all(middle[e]);
            const vec a = s->is_part ? fact(radius, at) : all(radius[e]);
            g->least[v] += r * m - magnitude(r) * a;
        }
    }
}

#define BY_VECTORS(nv, call)                      \
    do {                                          \
        if ((nv) == 1) { enum { n = 1 }; call; }  \
        else if ((nv) == 2) { enum { n = 2 }; call; } \
        else { enum { n = 3 }; call; }            \
    } while (0)

static __attribute__((noinline)) void point(const step *s, group *g) {
    const int has_all = s->bends && !s->before_bias && s->before_sizes && s->offset_low && s->bias && s->sizes;
    if (s->is_part) BY_VECTORS(g->vectors, point_of(s, g, n, 1, 0));
    else if (has_all) BY_VECTORS(g->vectors, point_of(s, g, n, 0, 1)); /* a ReLU behind a sum and a bias */
    else BY_VECTORS(g->vectors, point_of(s, g, n, 0, 0));
}

static __attribute__((noinline)) void dense(
    const step *s, group *groups, int64_t count, const double *middle, const double *radius) {
    for (int64_t panel = 0; panel * TALL < elements_into(s); panel++)
        for (int64_t k = 0; k < count; k++)
            BY_VECTORS(groups[k].vectors, dense_panel(s, groups + k, panel, n, middle, radius));
}

static __attribute__((noinline)) void conv(const step *s, group *g, int32_t *work) {
    BY_VECTORS(g->vectors, conv_of(s, g, n, work));
}

static __attribute__((noinline)) void least(const step *s, group *g, const double *middle, const double *radius) {
    BY_VECTORS(g->vectors, least_of(s, g, n, middle, radius));
}

/* What was computed becomes what is read. */
static void turned(group *g) {
    double *kept = g->rows;
    g->rows = g->next, g->next = kept;
}

/* Rows are kept beside those that go on. */
static void keep(const step *s, group *g) {
    memcpy(g->slots[s->slot], g->rows, s->channels * s->height * s->width * g->vectors * LANES * sizeof(double));
}

/* Rows that were kept go on, and those that came back are kept. */
static void turn(const step *s, group *g) {
    double *kept = g->rows;
    g->rows = g->slots[s->slot], g->slots[s->slot] = kept;
}

/* Rows of one value that came two ways. */
static void meet(const step *s, group *g) {
    const double *kept = g->slots[s->slot];
    for (int64_t e = 0; e < s->channels * s->height * s->width * g->vectors * LANES; e++) g->rows[e] += kept[e];
}

/* Every element of the rows of a group that is not zero. */
static void count_active(group *g, int64_t elements) {
    const int64_t lanes = g->vectors * LANES;
    g->active_count = 0;
    for (int64_t e = 0; e < elements; e++) {
        int any = 0;
        for (int64_t l = 0; l < lanes; l++) any |= g->rows[e * lanes + l] != 0;
        g->active[g->active_count] = (int32_t)e;
        g->active_count += any;
    }
}

/* The negative of a group, as a group of its own. */
static void negated(const group *g, group *other, int64_t elements) {
    const group kept = *other;
    double *rows = kept.rows;
    *other = *g;
    other->rows = rows, other->next = kept.next, other->active = kept.active;
    memcpy(other->slots, kept.slots, sizeof kept.slots); /* nothing is kept before rows and negatives are apart */
    for (int64_t e = 0; e < elements * g->vectors * LANES; e++) rows[e] = -g->rows[e];
    for (int v = 0; v < g->vectors; v++) other->constant[v] = -g->constant[v];
}

/* Lanes of the results: where a row starts in `rows_at` [rows][elements], or as the unit of an element. */
static void started(group *g, const step *s, const int64_t *units, const double *rows_at) {
    const int64_t elements = s->channels * s->height * s->width, lanes = g->vectors * LANES;
    const int64_t own = s->value_height * s->value_width;
    memset(g->rows, 0, elements * lanes * sizeof(double));
    for (int64_t l = 0; l < lanes; l++) {
        const int64_t row = g->first + (l < g->count ? l : 0);
        g->begin_y[l] = g->begin_x[l] = 0;
        if (rows_at) {
            if (l < g->count)
                for (int64_t e = 0; e < elements; e++) g->rows[e * lanes + l] = rows_at[row * elements + e];
            continue;
        }
        const int64_t unit = units[row], place = unit % own;
        if (s->is_part) g->begin_y[l] = place / s->value_width, g->begin_x[l] = place % s->value_width;
        if (l < g->count) g->rows[(s->is_part ? unit / own : unit) * lanes + l] = 1;
    }
    count_active(g, elements);
    for (int v = 0; v < VECTORS; v++) g->constant[v] = g->slack[v] = g->mass[v] = g->least[v] = (vec){};
}

/* Rows of inputs, [rows][elements of the value]. */
static void written(const group *g, const step *s, double *reached, int64_t at) {
    const int64_t lanes = g->vectors * LANES, own = s->value_height * s->value_width, size = s->channels * own;
    for (int64_t l = 0; l < g->count; l++)
        for (int64_t e = 0; e < size; e++) reached[(at + l) * size + e] = g->rows[e * lanes + l];
}

/* `count` rows, sorted by their boxes, pass `steps`; the last step says what rows of inputs are. They are the units of
   elements, each with its negative, which one step `splits` off, or are given. `results` are [4][rows]: constants, slacks, masses, and the least of
   the inputs; with negatives those of all rows are first. Without `middle` and `radius` rows are left in `reached`.
   `most` is the greatest number of elements of rows on the way, `depth` the most slots that are in use at a time. 0
   where memory was not found. */
int edgec_backward(const step *steps, int64_t step_count, int64_t count, const int64_t *boxes, const int64_t *units,
                   const double *given, const double *middle, const double *radius, int64_t most, int64_t depth,
                   double *results, double *reached) {
    const int64_t signs = units ? 2 : 1, total = count * signs;
    const int64_t buffers = 2 + depth;
    int64_t room = (1 << 19) / (most * WIDTH * 8 * buffers * signs);
    room = room < 1 ? 1 : room > 16 ? 16 : room;
    const int64_t slots = room * signs, bytes = most * WIDTH * sizeof(double);
    double *memory = 0;
    if (posix_memalign((void **)&memory, 64, slots * buffers * bytes)) return 0;
    int32_t *lists = malloc((slots + 2) * (most + 1) * sizeof(int32_t));
    group *groups = 0;
    if (posix_memalign((void **)&groups, 64, slots * sizeof(group))) groups = 0;
    if (!lists || !groups) {
        free(memory), free(lists), free(groups);
        return 0;
    }
    for (int64_t k = 0; k < slots; k++) {
        groups[k].rows = memory + k * buffers * most * WIDTH, groups[k].next = groups[k].rows + most * WIDTH;
        for (int64_t d = 0; d < depth; d++) groups[k].slots[d] = groups[k].next + (d + 1) * most * WIDTH;
        groups[k].active = lists + (k + 2) * (most + 1);
    }
    for (int64_t row = 0; row < count;) {
        int64_t n = 0;
        for (; n < room && row < count; n++) {
            int64_t end = row;
            while (end < count && boxes[end] == boxes[row]) end++;
            /* as many groups as it takes, all about as wide */
            const int64_t vectors = (end - row + LANES - 1) / LANES, of = (vectors + VECTORS - 1) / VECTORS;
            groups[n].vectors = (int)((vectors + of - 1) / of);
            groups[n].box = boxes[row], groups[n].first = row;
            groups[n].count = end - row < groups[n].vectors * LANES ? end - row : groups[n].vectors * LANES;
            row += groups[n].count;
            started(groups + n, steps, units, given);
        }
        int64_t live = n;
        for (int64_t k = 0; k < step_count - 1; k++) {
            const step *s = steps + k;
            if (s->splits && units) {
                for (int64_t j = 0; j < n; j++)
                    negated(groups + j, groups + n + j, s->channels * s->height * s->width);
                live = 2 * n;
            }
            if (s->kind == DENSE) {
                const int is_last = k == step_count - 2 && middle;
                dense(s, groups, live, is_last ? middle : 0, radius);
                for (int64_t j = 0; j < live && !is_last; j++) turned(groups + j);
                continue;
            }
            for (int64_t j = 0; j < live; j++) {
                group *g = groups + j;
                if (s->kind == POINT) point(s, g);
                else if (s->kind == CONV) conv(s, g, lists), turned(g);
                else if (s->kind == PLACE) place_of(s, g), turned(g);
                else if (s->kind == KEEP) keep(s, g);
                else if (s->kind == TURN) turn(s, g);
                else if (s->kind == MEET) meet(s, g);
                else pad_of(s, g);
                if (s->kind == PAD && !s->is_part) turned(g);
            }
        }
        const step *last = steps + step_count - 1;
        const int is_done = step_count > 1 && last[-1].kind == DENSE && middle;
        for (int64_t j = 0; j < live; j++)
            if (middle && !is_done) least(last, groups + j, middle, radius);
        for (int64_t j = 0; j < live; j++) {
            const group *g = groups + j;
            const int64_t at = g->first + (j < n ? 0 : count);
            for (int64_t l = 0; l < g->count; l++) {
                const int64_t v = l / LANES, i = l % LANES;
                results[at + l] = g->constant[v][i];
                results[total + at + l] = g->slack[v][i], results[2 * total + at + l] = g->mass[v][i];
                results[3 * total + at + l] = g->least[v][i];
            }
            if (reached) written(g, last, reached, at);
        }
    }
    free(memory), free(lists), free(groups);
    return 1;
}

/* Weights are in panels of so many results. */
int edgec_backward_tall(void) { return TALL; }

/* So many slots. */
int edgec_backward_slots(void) { return SLOTS; }
