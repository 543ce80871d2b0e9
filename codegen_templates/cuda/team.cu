//# combine: every member of a team gets the reduction ``p`` over what all of them have accumulated. Lanes of a warp exchange
//# registers; where a team is more than a warp, one partial result of each warp goes through shared memory.
//% macro combine(k, p)
//%   set warps = k.threads // 32
//%   if k.neighbors > 1
//%     if k.neighbors < 32
  for (ec_int step = 16; step >= ${k.neighbors}; step /= 2) { /* lanes that belong to one result */
    const float other = ec_shuffle(${p.accumulator}, step);
    ${p.merge}
  }
//%     endif
  EC_SHARED float ${p.accumulator}_parts[${warps * k.neighbors}]; /* partial results of the warps */
  if (ec_thread() % 32 < ${k.neighbors}) ${p.accumulator}_parts[ec_thread() / 32 * ${k.neighbors} + ec_thread() % 32] = ${p.accumulator};
  ec_barrier();
  ${p.accumulator} = ${p.accumulator}_parts[ec_thread() % ${k.neighbors}];
#pragma unroll 8
  for (ec_int i = 1; i < ${warps}; ++i) {
    const float other = ${p.accumulator}_parts[i * ${k.neighbors} + ec_thread() % ${k.neighbors}];
    ${p.merge}
  }
//%   else
  for (ec_int step = ${[k.team, 32]|min // 2}; step > 0; step /= 2) {
    const float other = ec_shuffle(${p.accumulator}, step);
    ${p.merge}
  }
//%     if k.team > 32
  EC_SHARED float ${p.accumulator}_parts[${warps}];
  if (ec_thread() % 32 == 0) ${p.accumulator}_parts[ec_thread() / 32] = ${p.accumulator};
  ec_barrier();
  ${p.accumulator} = ${p.accumulator}_parts[ec_thread() / ${k.team} * ${k.team // 32}];
  for (ec_int i = 1; i < ${k.team // 32}; ++i) {
    const float other = ${p.accumulator}_parts[ec_thread() / ${k.team} * ${k.team // 32} + i];
    ${p.merge}
  }
//%     endif
//%   endif
//%- endmacro
//#
//# combine_wide: the same where every thread has accumulated four neighboring results; afterwards it has that one of the
//# team's results which threads of one result each would have.
//% macro combine_wide(k, p)
//%   set warps = k.threads // 32
  EC_SHARED float ${p.accumulator}_parts[${warps * k.neighbors}]; /* partial results of the warps */
#pragma unroll
  for (ec_int lane = 0; lane < 4; ++lane) {
    float ${p.accumulator} = ec_lane(${p.accumulator}_v, lane);
    for (ec_int step = 16; step >= ${k.neighbors // 4}; step /= 2) {
      const float other = ec_shuffle(${p.accumulator}, step);
      ${p.merge}
    }
    if (ec_thread() % 32 < ${k.neighbors // 4}) ${p.accumulator}_parts[ec_thread() / 32 * ${k.neighbors} + ec_thread() % 32 * 4 + lane] = ${p.accumulator};
  }
  ec_barrier();
  float ${p.accumulator} = ${p.accumulator}_parts[ec_thread() % ${k.neighbors}];
#pragma unroll 8
  for (ec_int i = 1; i < ${warps}; ++i) {
    const float other = ${p.accumulator}_parts[i * ${k.neighbors} + ec_thread() % ${k.neighbors}];
    ${p.merge}
  }
//%- endmacro
//#
//# in_parts: the thread blocks that share results write what each has reduced; the last of them combines the parts, always
//# in the same order.
//% macro in_parts(k, p, group)
  float *const parts = ${k.scratch_as("float")} + (${group} * ${k.each * k.split} + wanted - ${group} * ${k.each});
  if (member == 0) parts[part * ${k.each}] = ${p.accumulator};
  if (!ec_is_last(locks + ${group}, ${k.split})) return;
  {
    ${p.accumulator} = ${p.neutral};
#pragma unroll 4
    for (ec_int i = member; i < ${k.split}; i += ${k.team}) {
      const float other = ec_fresh(parts + i * ${k.each});
      ${p.merge}
    }
${combine(k, p)|indent(2, true)}
  }
//%- endmacro
