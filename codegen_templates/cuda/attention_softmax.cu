//# Softmax weights of a tile of keys, in place of its scores: 2 to the power of a score less ``base``, in units of ln 2. ``sum``
//# and ``mixed`` are scaled down, and ``base`` becomes the largest score so far, when that is so far above it that weights might
//# not fit halves. ``less``, the rounded product of ``base`` and the unit, is in all weights of a query alike, so that it may be
//# off by as much as a weight has room for. Scores farther away, as of keys that a large number masks, lose ``base`` first.
//% set tile = "at" if k.listed else "round"
    float most[${high}][2];
    bool is_special = far;
//% if k.sees
    /* Keys that a query sees only move on with queries: where corners are seen, all of a tile is. */
    const ec_int low_m = ${k.within("first_m + my_row", k.queries, t.queries)}, high_m = ${k.within("first_m + my_row + %d" % (high * 16 - 1), k.queries, t.queries)};
    const ec_int low_n = ${k.within("%s * %d + slice * %d" % (tile, t.keys, own), k.keys, t.keys)}, high_n = ${k.within("%s * %d + slice * %d" % (tile, t.keys, own) ~ " + %d" % (own - 1), k.keys, t.keys)};
    if (!${k.sees.call(m="low_m", n="high_n")} || !${k.sees.call(m="high_m", n="low_n")}) {
//% endif
//% if k.sees or k.scale is none
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      const ec_int m = ${k.within("first_m + my_row + i / 2 * 16 + lane / 4 + i % 2 * 8", k.queries, t.queries)};
      (void)m;
#pragma unroll
      for (ec_int j = 0; j < ${columns * 2}; ++j) {
        const ec_int n = ${k.within("%s * %d + slice * %d + j / 2 * 8 + lane %% 4 * 2 + j %% 2"|format(tile, t.keys, own), k.keys, t.keys)};
        (void)n;
        float *const score = &scores[i / 2][j / 2][i % 2 * 2 + j % 2];
//%   if k.sees
        if (!${k.sees.call()}) *score = -(float)INFINITY;
//%   else
        *score = ${k.score.call("*score")};
//%   endif
      }
    }
//% endif
//% if k.sees
    }
//% endif
//% set inside = k.some("n < %s", k.keys, t.keys)
//% if inside
    if ((${tile} + 1) * ${t.keys} > ${k.keys|c}) { /* the last tile has fewer keys */
#pragma unroll
      for (ec_int j = 0; j < ${columns * 2}; ++j) {
        const ec_int n = ${tile} * ${t.keys} + slice * ${own} + j / 2 * 8 + lane % 4 * 2 + j % 2;
#pragma unroll
        for (ec_int i = 0; i < ${high * 2}; ++i)
          if (!(${inside})) scores[i / 2][j / 2][i % 2 * 2 + j % 2] = -(float)INFINITY;
      }
    }
//% endif
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      float *const mine = &most[i / 2][i % 2];
      float other = *mine = -(float)INFINITY; /* two chains, each of half the latency */
#pragma unroll
      for (ec_int j = 0; j < ${columns}; ++j) {
        *mine = fmaxf(*mine, scores[i / 2][j][i % 2 * 2]);
        other = fmaxf(other, scores[i / 2][j][i % 2 * 2 + 1]);
      }
      *mine = fmaxf(*mine, other);
      is_special |= (*mine - base[i / 2][i % 2]) * ${k.unit} > 8.0f;
    }
    if (ec_any(is_special)) { /* one branch, which few tiles take, by all lanes or none: products need a whole warp */
      bool grows = false;
#pragma unroll
      for (ec_int i = 0; i < ${high * 2}; ++i) {
        float *const mine = &most[i / 2][i % 2];
        *mine = fmaxf(*mine, ec_shuffle(*mine, 1));
        *mine = fmaxf(*mine, ec_shuffle(*mine, 2));
        grows |= (*mine - base[i / 2][i % 2]) * ${k.unit} > 8.0f;
      }
      if (ec_any(grows)) {
        far = false;
#pragma unroll
        for (ec_int i = 0; i < ${high * 2}; ++i) {
          float *const mine = &base[i / 2][i % 2];
          const float larger = fmaxf(*mine, most[i / 2][i % 2]);
          const float shrink = ec_rebased(*mine, larger, ${k.unit});
          *mine = larger;
          far |= ec_is_far(larger, ${k.unit});
          sum[i / 2][i % 2] *= shrink;
#pragma unroll
          for (ec_int j = 0; j < ${wide * 2}; ++j) mixed[i / 2][j / 2][i % 2 * 2 + j % 2] *= shrink;
        }
        far = ec_any(far);
      }
      if (far) {
#pragma unroll
        for (ec_int i = 0; i < ${high * 2}; ++i)
          if (ec_is_far(base[i / 2][i % 2], ${k.unit}))
#pragma unroll
            for (ec_int j = 0; j < ${columns * 2}; ++j) scores[i / 2][j / 2][i % 2 * 2 + j % 2] -= base[i / 2][i % 2];
      }
    }
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      const float less = ec_less(base[i / 2][i % 2], ${k.unit});
      float total[2] = {};
#pragma unroll
      for (ec_int j = 0; j < ${columns * 2}; ++j) {
        float *const weight = &scores[i / 2][j / 2][i % 2 * 2 + j % 2];
        *weight = ec_exp2(fmaf(*weight, ${k.unit}, less));
        total[j % 2] += *weight;
      }
      sum[i / 2][i % 2] += total[0] + total[1];
    }
