//# Softmax weights of a tile of keys, in place of its scores. ``top`` is the largest score of a query so far, times the binary
//# logarithm of e; ``sum`` and ``mixed`` are scaled down when a larger one comes.
#pragma unroll
    for (ec_int i = 0; i < ${high}; ++i)
#pragma unroll
      for (ec_int r = 0; r < 2; ++r) {
        const ec_int m = first_m + my_row + i * 16 + lane / 4 + r * 8;
        (void)m;
        float most = -(float)INFINITY;
#pragma unroll
        for (ec_int j = 0; j < ${columns * 2}; ++j) {
          const ec_int n = ${"at" if k.listed else "round"} * ${t.keys} + slice * ${own} + j / 2 * 8 + lane % 4 * 2 + j % 2;
          (void)n;
          float *const score = &scores[i][j / 2][r * 2 + j % 2];
          *score = ${k.exists("m", "n")}${k.score.call("*score")}${k.otherwise};
          most = fmaxf(most, *score);
        }
        most = fmaxf(most, ec_shuffle(most, 1));
        most = fmaxf(most, ec_shuffle(most, 2));
        most = fmaxf(top[i][r], most * EC_LOG2E);
        /* A query that may look at no key yet has no largest score to subtract. */
        const float base = most == -(float)INFINITY ? 0.0f : most, shrink = ec_exp2(top[i][r] - base);
        top[i][r] = most;
        sum[i][r] *= shrink;
#pragma unroll
        for (ec_int j = 0; j < ${columns * 2}; ++j) {
          float *const weight = &scores[i][j / 2][r * 2 + j % 2];
          *weight = ec_exp2(fmaf(*weight, EC_LOG2E, -base));
          sum[i][r] += *weight;
        }
#pragma unroll
        for (ec_int j = 0; j < ${wide * 2}; ++j) mixed[i][j / 2][r * 2 + j % 2] *= shrink;
      }
