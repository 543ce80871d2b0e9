//# Macros of the kernels on tensor cores: loading tiles into shared memory, and storing the fragments of a warp.
//#
//# fetch: loads ``rows`` rows of ``columns`` elements: row ``row`` is number ``number``, columns begin at ``at`` of loop
//# ``along``. Elements are zero where ``inside`` does not hold and from ``end`` on. The slot gives the bytes of one copy.
//# With ``pieces`` the copies of a thread are issued in so many parts, this one being ``piece`` (all where it is negative).
//# Where rows are ``swizzled``, they are of 128 bytes, with their 16-byte chunks in an order that depends on the row; what
//# is longer lies there part after part, each with all of the rows.
//% macro fetch(slot, t, element, rows, pitch, target, row, number, inside, along, columns, at, end, pieces=1, swizzled=false)
//%   set chunk = 16 // t.bytes
//%   set chunks = columns // chunk
//%   set total = rows * chunks
//%   set copies = (total + t.threads - 1) // t.threads
#pragma unroll
    for (ec_int i = 0; i < ${copies}; ++i) {
//%   if pieces > 1
      if (piece >= 0 && i * ${pieces} / ${copies} != piece) continue;
//%   endif
//%   if t.threads % chunks
      const ec_int place = i * ${t.threads} + thread, row = place / ${chunks}, column = place % ${chunks} * ${chunk};
//%   else
      const ec_int row = i * ${t.threads // chunks} + thread / ${chunks}, column = thread % ${chunks} * ${chunk};
//%   endif
//%   if total % t.threads
      if (row >= ${rows}) break;
//%   endif
      const ec_int ${row} = ${number}, ${along} = ${at} + column;
      (void)${row};
//%   if swizzled
//%     set width = 8 * chunk
      ${element} *const to = ${target} + ${"column / %d * %d + " % (width, rows * width) if columns > width}row * ${width} + (column % ${width} ^ row % 8 * ${chunk});
//%   else
      ${element} *const to = ${target} + row * ${pitch} + column;
//%   endif
//%   if slot.lanes == 0
//%     set each = slot.copied // t.bytes
//%     set part = along if each == chunk else along ~ " + j"
//%     set deeper = "" if each == chunk else "  "
//%     set there = (inside ~ " && " if inside else "") ~ part ~ " < " ~ end
//%     if each != chunk
#pragma unroll
      for (ec_int j = 0; j < ${chunk}; j += ${each}) {
//%     endif
      ${deeper}const auto from = ${slot.call(**{along: part})};
//%     set into = "to" if each == chunk else "to + j"
//%     if not slot.fill
      ${deeper}ec_copy_if<${slot.copied}>(${into}, from, ${there});
//%     elif slot.fill == "0x00000000u"
      ${deeper}ec_copy_if<${slot.copied}>(${into}, from, from && ${there});
//%     else
      ${deeper}if (from && ${there}) ec_copy_if<${slot.copied}>(${into}, from, true);
      ${deeper}else ec_fill<${slot.copied}>(${into}, ${there} ? ${slot.fill} : 0);
//%     endif
//%     if each != chunk
      }
//%     endif
//%   elif slot.lanes > 1
//%     for part in range(0, chunk, slot.lanes)
      ec_store${"_" ~ t.element if t.bytes == 2 else ""}(to + ${part}, ${inside ~ " && " if inside else ""}${along} + ${part} < ${end} ? ${slot.call(**{along: "%s + %d" % (along, part)})} : ec_set1(0.0f));
//%     endfor
//%   else
      ${slot.ctype} x[${chunk}]; /* all loads are issued before the first is used */
#pragma unroll
      for (ec_int j = 0; j < ${chunk}; ++j) x[j] = ${inside ~ " && " if inside else ""}${along} + j < ${end} ? ${slot.call(**{along: "%s + j" % along})} : (${slot.ctype})0;
#pragma unroll
      for (ec_int j = 0; j < ${chunk}; ++j) to[j] = ${"ec_to_%s(x[j])" % t.element if t.bytes == 2 else "(%s)x[j]" % element};
//%   endif
    }
//% endmacro
//#
//# stored: stores ``high`` x ``wide`` fragments of 16 x 8 results, beginning at row ``top`` and column ``left``. Where f does
//# not store itself (f.store), a few rows at a time are computed before they are stored; what is beyond the last row or
//# column is computed as the last, so that no load waits for a condition.
//% macro stored(sums, high, wide, f, top, rows, column, left, columns)
#pragma unroll
//%   if f.store
//%     set together = [[16 // wide, 1]|max, high * 2]|min
  for (ec_int first = 0; first < ${high * 2}; first += ${together}) {
    ${f.store.ctype} values[${together}][${wide // 2}]${"" if f.lanes > 1 else "[4]"};
${_rows(sums, wide, f, top, rows, column, left, columns, together, "compute")}
${_rows(sums, wide, f, top, rows, column, left, columns, together, "store")}
//%   else
  for (ec_int i = 0; i < ${high * 2}; ++i) {
${_row(sums, wide, f, top, rows, column, left, columns, "both")}
//%   endif
  }
//%- endmacro
//% macro _rows(sums, wide, f, top, rows, column, left, columns, together, what)
#pragma unroll
    for (ec_int i = first; i < first + ${together}; ++i) {
${_row(sums, wide, f, top, rows, column, left, columns, what)|indent(2, true)}
    }
//%- endmacro
//% macro _row(sums, wide, f, top, rows, column, left, columns, what)
//%   set value = "values[i - first][j / 2]" ~ ("" if f.lanes > 1 else "[e]")
//%   set sum = "sum" if f.lanes > 1 else sums ~ "[i / 2][j + e / 2][i % 2 * 2 + e % 2]"
//%   set last = {"m": "ec_min_int(m, %d)" % (rows|int - 1) if rows|int(-1) >= 0 else "ec_max_int(0, ec_min_int(m, %s - 1))" % rows, column: "ec_min_int(%s, %d)" % (column, columns - f.lanes)}
//%   set guard = "" if what == "compute" else "if (m < %s && %s < %s) " % (rows, column, columns)
//%   set done = f.store.call(value) if what == "store" else value ~ " = " ~ f.call(sum, **last) if what == "compute" else f.call(sum)
    const ec_int m = ${top} + i / 2 * 16 + lane / 4 + i % 2 * 8;
    (void)m;
#pragma unroll
    for (ec_int j = 0; j < ${wide}; j += 2) {
//%   if f.lanes > 1
      const ec_int ${column} = ${left} + (j + lane % 2) * 8 + lane % 4 / 2 * 4;
      (void)${column};
//%     if what != "store"
      /* Two lanes hold two neighbors of two fragments each: the even one takes four of the first, the odd one of the second. */
      const bool second = lane % 2;
      const float *const one = ${sums}[i / 2][j] + i % 2 * 2, *const two = ${sums}[i / 2][j + 1] + i % 2 * 2;
      const float even = ec_shuffle(second ? one[0] : two[0], 1), odd = ec_shuffle(second ? one[1] : two[1], 1);
      const ec_vf sum = second ? ec_make(even, odd, two[0], two[1]) : ec_make(one[0], one[1], even, odd);
//%     endif
      ${guard}${done};
//%   else
#pragma unroll
      for (ec_int e = 0; e < 4; ++e) {
        const ec_int ${column} = ${left} + (j + e / 2) * 8 + lane % 4 * 2 + e % 2;
        (void)${column};
        ${guard}${done};
      }
//%   endif
    }
//%- endmacro
