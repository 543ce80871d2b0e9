//# Softmax weights of a tile of keys, in place of its scores: 2 to the power of a score less ``base``, in units of ln 2. ``sum``
//# and ``mixed`` are scaled down, and ``base`` becomes the largest score so far, when that is so far above it that weights might
//# not fit halves. ``less``, the rounded product of ``base`` and the unit, is in all weights of a query alike, so that it may be
//# off by as much as a weight has room for. Scores farther away, as of keys that a large number masks, lose ``base`` first.
    bool grows = false;
    float most[${high}][2];
#pragma unroll
    for (ec_int i = 0; i < ${high}; ++i)
#pragma unroll
      for (ec_int r = 0; r < 2; ++r) {
        const ec_int m = first_m + my_row + i * 16 + lane / 4 + r * 8;
        (void)m;
        most[i][r] = -(float)INFINITY;
#pragma unroll
        for (ec_int j = 0; j < ${columns * 2}; ++j) {
          const ec_int n = ${"at" if k.listed else "round"} * ${t.keys} + slice * ${own} + j / 2 * 8 + lane % 4 * 2 + j % 2;
          (void)n;
          float *const score = &scores[i][j / 2][r * 2 + j % 2];
//% if k.scale is none
          *score = ${k.exists("m", "n")}${k.score.call("*score")}${k.otherwise};
//% elif k.otherwise
          *score = ${k.exists("m", "n")}*score${k.otherwise};
//% endif
          most[i][r] = fmaxf(most[i][r], *score);
        }
        most[i][r] = fmaxf(most[i][r], ec_shuffle(most[i][r], 1));
        most[i][r] = fmaxf(most[i][r], ec_shuffle(most[i][r], 2));
        grows |= (most[i][r] - base[i][r]) * ${k.unit} > 8.0f;
      }
    if (ec_any(grows)) { /* by all lanes or none: products need a whole warp */
#pragma unroll
      for (ec_int i = 0; i < ${high * 2}; ++i) {
        float *const mine = &base[i / 2][i % 2];
        const float larger = fmaxf(*mine, most[i / 2][i % 2]);
        const float shrink = ec_rebased(*mine, larger, ${k.unit});
        *mine = larger;
        sum[i / 2][i % 2] *= shrink;
#pragma unroll
        for (ec_int j = 0; j < ${wide * 2}; ++j) mixed[i / 2][j / 2][i % 2 * 2 + j % 2] *= shrink;
      }
      far = false;
#pragma unroll
      for (ec_int i = 0; i < ${high * 2}; ++i) far |= ec_is_far(base[i / 2][i % 2], ${k.unit});
    }
    if (ec_any(far)) {
#pragma unroll
      for (ec_int i = 0; i < ${high * 2}; ++i)
        if (ec_is_far(base[i / 2][i % 2], ${k.unit}))
#pragma unroll
          for (ec_int j = 0; j < ${columns * 2}; ++j) scores[i / 2][j / 2][i % 2 * 2 + j % 2] -= base[i / 2][i % 2];
    }
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      const float less = ec_less(base[i / 2][i % 2], ${k.unit});
#pragma unroll
      for (ec_int j = 0; j < ${columns * 2}; ++j) {
        float *const weight = &scores[i / 2][j / 2][i % 2 * 2 + j % 2];
        *weight = ec_exp2(fmaf(*weight, ${k.unit}, less));
        sum[i / 2][i % 2] += *weight;
      }
    }
