//# What kernels on tensor cores share: bringing tiles into shared memory, and storing what the lanes of a warp hold.
//#
//# fetch: ``rows`` rows of ``columns`` elements, from number first_ROW on and from ``at`` on along ``along``; zeros where
//# ``inside`` does not hold and from ``end`` on.
//% macro fetch(slot, t, element, rows, pitch, target, row, inside, along, columns, at, end)
//%   set chunk = 16 // t.bytes
//%   set chunks = columns // chunk
//%   set total = rows * chunks
//%   set inside = inside ~ " && " if inside else ""
#pragma unroll
    for (ec_int i = 0; i < ${(total + t.threads - 1) // t.threads}; ++i) {
      const ec_int place = i * ${t.threads} + thread;
//%   if total % t.threads
      if (place >= ${total}) break;
//%   endif
      const ec_int row = place / ${chunks}, ${along} = ${at} + place % ${chunks} * ${chunk};
      const ec_int ${row} = first_${row} + row;
      ${element} *const to = ${target} + row * ${pitch} + place % ${chunks} * ${chunk};
//%   if slot.lanes == 0
      if (${inside}${along} < ${end}) {
        ec_copy(to, ${slot.call()}${"" if slot.fill == "0x00000000u" else ", " ~ slot.fill});
      } else {
        ec_fill(to, 0);
      }
//%   elif slot.lanes > 1
//%     for part in range(0, chunk, slot.lanes)
      ec_store${"_f16" if t.bytes == 2 else ""}(to + ${part}, ${inside}${along} + ${part} < ${end} ? ${slot.call(**{along: "%s + %d" % (along, part)})} : ec_set1(0.0f));
//%     endfor
//%   else
#pragma unroll
      for (ec_int j = 0; j < ${chunk}; ++j) {
        const ${slot.ctype} x = ${inside}${along} + j < ${end} ? ${slot.call(**{along: "%s + j" % along})} : (${slot.ctype})0;
        to[j] = ${"ec_to_f16(x)" if t.bytes == 2 else "(%s)x" % element};
      }
//%   endif
    }
//% endmacro
//#
//# stored: ``high`` x ``wide`` products of 16 x 8 results, as tensor cores leave them, from number ``top`` and ``left`` on.
//% macro stored(sums, high, wide, f, top, rows, column, left, columns)
#pragma unroll
  for (ec_int i = 0; i < ${high}; ++i) {
#pragma unroll
    for (ec_int j = 0; j < ${wide}; ++j) {
      const ec_int upper = ${top} + i * 16 + lane / 4, first = ${left} + j * 8;
//%   if f.lanes > 1
      /* Two lanes hold two neighbors of two rows each: the even one takes four of the upper, the odd one of the lower. */
      const bool lower = lane % 2;
      const float *const mine = ${sums}[i][j];
      const float even = ec_shuffle(lower ? mine[0] : mine[2], 1), odd = ec_shuffle(lower ? mine[1] : mine[3], 1);
      const ec_vf sum = lower ? ec_make(even, odd, mine[2], mine[3]) : ec_make(mine[0], mine[1], even, odd);
      const ec_int m = upper + (lower ? 8 : 0), ${column} = first + lane % 4 / 2 * 4;
      if (m < ${rows} && ${column} < ${columns}) ${f.call("sum")};
//%   else
#pragma unroll
      for (ec_int e = 0; e < 4; ++e) {
        const ec_int m = upper + e / 2 * 8, ${column} = first + lane % 4 * 2 + e % 2;
        if (m < ${rows} && ${column} < ${columns}) ${f.call(sums ~ "[i][j][e]")};
      }
//%   endif
    }
  }
//%- endmacro
