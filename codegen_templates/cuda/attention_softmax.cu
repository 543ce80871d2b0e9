//# Softmax weights of a tile of keys, in place of its scores: 2 to the power of a score, in units of ln 2, less ``base``. ``sum``
//# and ``mixed`` are scaled down, and ``base`` becomes the largest score so far, when that is so far above it that weights might not fit halves.
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
        most[i][r] = fmaxf(most[i][r], ec_shuffle(most[i][r], 2)) * ${k.unit};
        grows |= most[i][r] > base[i][r] + 8.0f;
      }
    if (ec_any(grows)) { /* by all lanes or none: products need a whole warp */
#pragma unroll
      for (ec_int i = 0; i < ${high * 2}; ++i) {
        float *const mine = &base[i / 2][i % 2];
        const float larger = fmaxf(*mine, most[i / 2][i % 2]);
        /* A query that may look at no key yet has no largest score. */
        const float shrink = larger == -(float)INFINITY ? 1.0f : ec_exp2(*mine - larger);
        *mine = larger;
        sum[i / 2][i % 2] *= shrink;
#pragma unroll
        for (ec_int j = 0; j < ${wide * 2}; ++j) mixed[i / 2][j / 2][i % 2 * 2 + j % 2] *= shrink;
      }
    }
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      const float less = base[i / 2][i % 2] == -(float)INFINITY ? 0.0f : -base[i / 2][i % 2];
#pragma unroll
      for (ec_int j = 0; j < ${columns * 2}; ++j) {
        float *const weight = &scores[i / 2][j / 2][i % 2 * 2 + j % 2];
        *weight = ec_exp2(fmaf(*weight, ${k.unit}, less));
        sum[i / 2][i % 2] += *weight;
      }
    }
