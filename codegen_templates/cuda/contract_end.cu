//# The end of a matrix product on tensor cores: sums of slices, of a cluster and of other thread blocks are added up, and what
//# the epilogue makes of them is stored. A warp has ``high`` x ``wide`` fragments of 16 x 8 results in ``sums``.
//% macro each(indent)
#pragma unroll
${indent}for (ec_int i = 0; i < ${sums}; ++i)
//%- endmacro
//% set sum = "sums[i / %d][i / 4 %% %d][i %% 4]" % (wide * 4, wide)
//% if t.slices > 1
  ${k.number} *const partial = (${k.number} *)(void *)memory + (warp % ${t.warps} * ${sums * 32} + lane);
  ec_copies_wait<0>();
  ec_barrier();
  if (slice) {
${each("    ")} partial[((slice - 1) * ${t.warps * sums} + i) * 32] = ${sum};
  }
  ec_barrier();
  if (!slice) {
    for (ec_int other = 0; other < ${t.slices - 1}; ++other) {
${each("      ")} ${sum} += partial[(other * ${t.warps * sums} + i) * 32];
    }
  }
//% endif
//% if k.cluster > 1
  /* The thread blocks of a cluster have the parts of one tile; each adds up its share of the results, which it reads from
   * the shared memory of all. */
//%   set pitch, row = t.n + 8, t.n // 4
  ${k.number} *const rows = (${k.number} *)(void *)memory;
  ec_copies_wait<0>();
  ec_barrier();
  if (!slice) {
${each("    ")} rows[(warp_m * ${high * 16} + i / ${wide * 4} * 16 + lane / 4 + i % 4 / 2 * 8) * ${pitch} + warp_n * ${wide * 8} + i / 4 % ${wide} * 8 + lane % 4 * 2 + i % 2] = ${sum};
  }
  ec_cluster_sync();
#pragma unroll 1
  for (ec_int i = part * ${t.threads} + thread; i < ${t.m * row}; i += ${k.cluster * t.threads}) {
    const ec_int m = first_m + i / ${row}, n = first_n + i % ${row} * 4;
    if (m >= ${k.row_count} || n >= ${k.columns}) continue; /* what is read is used: a block may not end before it arrives */
    ${k.number} total[4] = {}, remote[${k.cluster}][4];
#pragma unroll
    for (ec_int other = 0; other < ${k.cluster}; ++other) ec_remote(remote[other], rows + i / ${row} * ${pitch} + i % ${row} * 4, other);
#pragma unroll
    for (ec_int j = 0; j < ${4 * k.cluster}; ++j) total[j % 4] += remote[j / 4][j % 4];
//%   set more = " + (n + j < %d ? %s : 0)" % (k.columns, k.start.call(n="n + j")) if k.start and (k.params.start.op != "const" or k.params.start.value) else ""
//%   if f.lanes > 1
    float done[4];
#pragma unroll
    for (ec_int j = 0; j < 4; ++j) done[j] = (float)(total[j]${more});
//%     set call = f.call("ec_make(done[0], done[1], done[2], done[3])")
    ${f.store.call(call) if f.store else call};
//%   else
//%     set call = f.call(("(float)(total[j]%s)" % more) if k.start else "total[j]", n="n + j")
#pragma unroll
    for (ec_int j = 0; j < 4; ++j)
      if (n + j < ${k.columns}) ${f.store.call(call, n="n + j") if f.store else call};
//%   endif
  }
  ec_cluster_sync(); /* no block ends while others read its shared memory */
//% else
//%   if k.split > 1
  ${k.number} *const parts = (${k.number} *)(void *)scratch_bytes + (tile * ${k.split * t.m * t.n} + thread);
  if (!slice) {
${each("    ")} parts[(part * ${sums} + i) * ${t.warps * 32}] = ${sum};
  }
  if (!ec_is_last(locks + tile, ${k.split})) return;
  if (!slice) {
${each("    ")} ${sum} = 0;
#pragma unroll ${[4, 128 // sums]|min}
    for (ec_int other = 0; other < ${k.split}; ++other) {
${each("      ")} ${sum} += ec_fresh(parts + (other * ${sums} + i) * ${t.warps * 32});
    }
  }
//% endif
//% set in_rows = f.lanes == 1 and not f.store
//% if t.slices > 1 and not in_rows
  if (slice) return;
//% endif
//% if k.start
  /* The epilogue takes floats. */
  float finished[${high}][${wide}][4];
#pragma unroll
  for (ec_int i = 0; i < ${sums}; ++i) {
    const ec_int m = first_m + warp_m * ${high * 16} + i / ${wide * 4} * 16 + lane / 4 + i % 4 / 2 * 8;
    const ec_int n = first_n + warp_n * ${wide * 8} + i / 4 % ${wide} * 8 + lane % 4 * 2 + i % 2;
    (void)m;
    (void)n;
    finished[i / ${wide * 4}][i / 4 % ${wide}][i % 4] = (float)(${sum}${" + " ~ k.start.call(n="ec_min_int(n, %d)" % (k.columns - 1)) if k.params.start.op != "const" or k.params.start.value else ""});
  }
//% endif
//% if in_rows
  /* Through shared memory, so that neighboring threads store neighbors of a row; tensor cores leave them apart. */
//%   set pitch = t.n + 8
//%   set kind = "float" if k.start else k.number
  ${kind} *const rows = (${kind} *)(void *)memory;
  ec_copies_wait<0>();
  ec_barrier();
  if (!slice) {
${each("    ")} rows[(warp_m * ${high * 16} + i / ${wide * 4} * 16 + lane / 4 + i % 4 / 2 * 8) * ${pitch} + warp_n * ${wide * 8} + i / 4 % ${wide} * 8 + lane % 4 * 2 + i % 2] = ${sum|replace("sums", "finished") if k.start else sum};
  }
  ec_barrier();
#pragma unroll 4
  for (ec_int i = thread; i < ${t.m * t.n}; i += ${t.threads}) {
    const ec_int m = first_m + i / ${t.n}, n = first_n + i % ${t.n};
    if (m < ${k.row_count} && n < ${k.columns}) ${f.call("rows[i / %d * %d + i %% %d]" % (t.n, pitch, t.n))};
  }
//% elif k.rolled
  /* Through shared memory, in a loop: side by side, the steps of all results would be more code than is at hand. */
//%   set pitch, row = t.n + 8, t.n // 4
  float *const rows = (float *)(void *)memory;
#pragma unroll
  for (ec_int i = 0; i < ${sums}; i += 2)
    ec_store_two(rows + (warp_m * ${high * 16} + i / ${wide * 4} * 16 + lane / 4 + i % 4 / 2 * 8) * ${pitch} + warp_n * ${wide * 8} + i / 4 % ${wide} * 8 + lane % 4 * 2, ${sum|replace("sums", "finished") if k.start else sum}, ${(sum|replace("sums", "finished") if k.start else sum)|replace("i % 4]", "i % 4 + 1]")});
  ec_barrier();
//%   set last = {"m": "ec_min_int(m, %d)" % (k.row_count|int - 1) if k.row_count|int(-1) >= 0 else "ec_max_int(0, ec_min_int(m, %s - 1))" % k.row_count|c, "n": "ec_min_int(n, %d)" % (k.columns - f.lanes)}
#pragma unroll 1
  for (ec_int first = thread; first < ${t.m * row}; first += ${4 * t.threads}) {
//%   if f.store
    ${f.store.ctype} values[4];
//%   endif
//%   for what in (["compute", "store"] if f.store else ["both"])
#pragma unroll
    for (ec_int i = 0; i < 4; ++i) {
      const ec_int at = first + i * ${t.threads}, m = first_m + at / ${row}, n = first_n + at % ${row} * 4;
      (void)m;
      (void)n;
//%     if what != "store"
      const ec_vf sum = ec_load(rows + at / ${row} * ${pitch} + at % ${row} * 4);
//%     endif
//%     if what == "compute"
      values[i] = ${f.call("sum", **last)};
//%     else
      if (m < ${k.row_count|c} && n < ${k.columns}) ${f.store.call("values[i]") if what == "store" else f.call("sum")};
//%     endif
    }
//%   endfor
  }
//% else
${stored("finished" if k.start else "sums", high, wide, f, "first_m + warp_m * %d" % (high * 16), k.row_count|c, "n", "first_n + warp_n * %d" % (wide * 8), k.columns)}
//% endif
//% endif
