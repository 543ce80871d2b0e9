//# The end of attention on tensor cores: results of slices are added up, divided by the sums of weights, and stored.
  ec_copies_wait<0>();
//% if t.slices > 1
  /* The first slice adds the partial results of the others to its own. */
  float *const partial = (float *)(void *)ec_shared() + thread % ${32 * t.warps};
  ec_barrier();
  if (slice) {
    float *const to = partial + (slice - 1) * ${held * 32 * t.warps};
#pragma unroll
    for (ec_int i = 0; i < ${high * wide * 4}; ++i) to[i * ${32 * t.warps}] = mixed[i / ${wide * 4}][i / 4 % ${wide}][i % 4];
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      to[(${high * wide * 4} + i) * ${32 * t.warps}] = base[i / 2][i % 2];
      to[(${high * wide * 4 + high * 2} + i) * ${32 * t.warps}] = sum[i / 2][i % 2];
    }
  }
  ec_barrier();
  if (slice) return;
#pragma unroll 1
  for (ec_int other = 0; other < ${t.slices - 1}; ++other) {
    const float *const from = partial + other * ${held * 32 * t.warps};
#pragma unroll
    for (ec_int i = 0; i < ${high * 2}; ++i) {
      const float their_base = from[(${high * wide * 4} + i) * ${32 * t.warps}];
      float *const my_base = &base[i / 2][i % 2];
      const float most = fmaxf(*my_base, their_base), less = most == -(float)INFINITY ? 0.0f : most;
      const float shrink = ec_exp2(*my_base - less), share = ec_exp2(their_base - less);
      *my_base = most;
      sum[i / 2][i % 2] = sum[i / 2][i % 2] * shrink + from[(${high * wide * 4 + high * 2} + i) * ${32 * t.warps}] * share;
#pragma unroll
      for (ec_int j = 0; j < ${wide * 2}; ++j) {
        float *const total = &mixed[i / 2][j / 2][i % 2 * 2 + j % 2];
        *total = *total * shrink + from[(i / 2 * ${wide * 4} + j / 2 * 4 + i % 2 * 2 + j % 2) * ${32 * t.warps}] * share;
      }
    }
  }
//% endif
#pragma unroll
  for (ec_int i = 0; i < ${high * 2}; ++i) {
    float total = sum[i / 2][i % 2];
    total += ec_shuffle(total, 1);
    total += ec_shuffle(total, 2);
    const float share = rounds ? 1.0f / total : 0.0f;
#pragma unroll
    for (ec_int j = 0; j < ${wide * 2}; ++j) mixed[i / 2][j / 2][i % 2 * 2 + j % 2] *= share;
  }
${stored("mixed", high, wide, f, "first_m + my_row", k.queries|c, "d", "0", k.width)}
}
