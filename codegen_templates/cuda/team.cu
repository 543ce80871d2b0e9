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
