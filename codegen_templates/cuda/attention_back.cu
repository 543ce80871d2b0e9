//# Macros of the kernels that take attention backwards. Rows lie in registers' fragments, columns come in tiles: rows are
//# queries and columns keys, or the other way round.
//#
//# take: brings ``rows`` rows of operand ``number``, from row ``first`` on, to ``target``; what is past ``count`` rows of
//# ``columns`` elements is zero. The operand of a head begins at ``from``.
//% macro take(k, number, from, rows, padded, pitch, first, count, columns, target)
//%   set t = k.tile
//%   set chunks = padded // t.chunk
#pragma unroll
    for (ec_int i = 0; i < ${(rows * chunks + t.threads - 1) // t.threads}; ++i) {
      const ec_int place = i * ${t.threads} + thread, row = place / ${chunks}, column = place % ${chunks} * ${t.chunk};
//%   if rows * chunks % t.threads
      if (row >= ${rows}) break;
//%   endif
      ${k.element} *const to = ${target} + row * ${pitch} + column;
      const bool there = ${first} + row < ${count};
//%   if k.is_copied(number, columns)
      ec_copy_if<16>(to, ${from} + (${first} + row) * ${columns} + column, there${" && column < %d" % columns if padded > columns});
//%   else
#pragma unroll
      for (ec_int j = 0; j < ${t.chunk}; ++j) {
        const bool is_number = there${" && column + j < %d" % columns if padded > columns};
//%     set element = "%s[(%s + row) * %d + column + j]" % (from, first, columns)
//%     if k.stored(number) == t.element and t.bytes == 2
        to[j] = is_number ? ${element} : (${k.element})0;
//%     elif k.stored(number) != "f32"
        to[j] = is_number ? ec_from_${k.stored(number)}(${element}) : 0.0f;
//%     else
        to[j] = ${"ec_to_%s(is_number ? %s : 0.0f)" % (t.element, element) if t.bytes == 2 else "is_number ? %s : 0.0f" % element};
//%     endif
      }
//%   endif
    }
//%- endmacro
//#
//# fragments: the factors of a warp's 16 rows, ``padded`` features of them, as ``name``.
//% macro fragments(t, name, at, padded)
    unsigned ${name}[${padded // (2 * t.chunk)}][4];
#pragma unroll
    for (ec_int s = 0; s < ${padded // (2 * t.chunk)}; ++s) ec_matrices(${name}[s], ${at} + s * ${2 * t.chunk});
//%- endmacro
//#
//# products: ``to``, products of the warp's rows and of all columns of a tile, both from shared memory; or rows from
//# fragments ``held``.
//% macro products(t, to, rows, columns_at, pitch, padded, held)
    float ${to}[${t.columns // 8}][4] = {};
#pragma unroll
    for (ec_int s = 0; s < ${padded // (2 * t.chunk)}; ++s) {
//%   if held
      const unsigned (&a)[1][4] = *(const unsigned (*)[1][4])&${held}[s];
      unsigned b[${t.columns // 16}][4];
//%   else
      unsigned a[1][4], b[${t.columns // 16}][4];
      ec_matrices(a[0], ${rows} + s * ${2 * t.chunk});
//%   endif
#pragma unroll
      for (ec_int j = 0; j < ${t.columns // 16}; ++j) ec_matrices(b[j], ${columns_at} + j * ${16 * pitch} + s * ${2 * t.chunk});
//%   if t.element == "tf32"
      ec_round_tf32(a);
      ec_round_tf32(b);
//%   endif
#pragma unroll
      for (ec_int j = 0; j < ${t.columns // 8}; ++j)
        ec_multiply_${t.element}(${to}[j], a[0], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
//%- endmacro
//#
//# sums: ``to`` += factors of the warp's rows and of all columns of a tile, times the ``padded`` features of those columns.
//% macro sums(t, to, factors, columns_at, pitch, padded)
//%   if t.bytes == 2
#pragma unroll
    for (ec_int j = 0; j < ${t.columns // 16}; ++j) {
      unsigned a[4];
#pragma unroll
      for (ec_int i = 0; i < 4; ++i) {
        const float *const two = &${factors}[j * 2 + i / 2][i % 2 * 2];
        a[i] = ec_two_${t.element}(two[0], two[1]);
      }
#pragma unroll
      for (ec_int w = 0; w < ${padded // 16}; ++w) {
        unsigned b[4];
        ec_matrices_transposed(b, ${columns_at} + (j * 16 + lane % 16) * ${pitch} + lane / 16 * 8 + w * 16);
        ec_multiply_${t.element}(${to}[w * 2], a, b[0], b[1]);
        ec_multiply_${t.element}(${to}[w * 2 + 1], a, b[2], b[3]);
      }
    }
//%   else
    /* Lanes hold factors of neighboring columns, but the product takes those of the two halves of eight: features are
     * loaded in the order of the factors. */
#pragma unroll
    for (ec_int j = 0; j < ${t.columns // 8}; ++j) {
      unsigned a[1][4];
#pragma unroll
      for (ec_int i = 0; i < 4; ++i) a[0][i] = ec_float_to_bits(${factors}[j][i % 2 * 2 + i / 2]);
//%     if t.element == "tf32"
      ec_round_tf32(a);
//%     endif
#pragma unroll
      for (ec_int w = 0; w < ${padded // 8}; ++w) {
        const float *const two = ${columns_at} + (j * 8 + lane % 4 * 2) * ${pitch} + lane / 4 + w * 8;
        unsigned b[1][4] = {{ec_float_to_bits(two[0]), ec_float_to_bits(two[${pitch}])}};
//%     if t.element == "tf32"
        ec_round_tf32(b);
//%     endif
        ec_multiply_${t.element}(${to}[w], a[0], b[0][0], b[0][1]);
      }
    }
//%   endif
//%- endmacro
//#
//# score: the statement that makes ``x``, a product, a score, its mask added; ``m`` and ``n`` are its query and its key. The
//# largest score of a row comes off before the unit of exponents, ln 2, is taken: a large number that masks would lose the
//# difference, or be infinite. Where tiles reach past the last of them, masks are read of those alone that there are.
//% macro score(k, mask, is_whole)
//%   set at = k.at
//%   if k.scale != 1
        x *= ${"%.9e"|format(k.scale)}f;
//%   endif
//%   if k.band and k.band.is_all
        if (n - m < ${k.band.low} || n - m > ${k.band.high}) x = -(float)INFINITY;
//%   elif mask
        x += ${"" if is_whole else "m < %d && n < %d ? " % (at.m, at.n)}mask[m * ${at.mask_steps[0]} + n * ${at.mask_steps[1]}]${"" if is_whole else " : 0.0f"};
//%   endif
//%- endmacro
//#
//# mask_of: the pointer ``mask`` to the mask of ``head``.
//% macro mask_of(k, operand)
  const float *mask = ${operand.pointer};
  {
    ec_int rest = head;
//%   for extent, step in k.at.outer|reverse
    mask += rest % ${extent} * ${step};
    rest /= ${extent};
//%   endfor
    (void)rest;
  }
//%- endmacro
//#
//# seen: ``first_round`` and ``rounds``, the tiles of columns that rows from ``first_row`` on see; of ``low`` and ``high`` are
//# the columns of the first row, ``count`` there are.
//% macro seen(k, low, high, count)
//%   if k.band
  const ec_int first_column = ec_max_int(0, first_row + ${low}), last_column = ec_min_int(${count}, first_row + ${k.tile.rows + high});
  const ec_int first_round = first_column / ${k.tile.columns}, rounds = (ec_max_int(last_column, first_column) + ${k.tile.columns - 1}) / ${k.tile.columns};
//%   else
  const ec_int first_round = 0, rounds = ${(count + k.tile.columns - 1) // k.tile.columns};
//%   endif
//%- endmacro
//#
//# begin, next_tile: the tiles of the first rounds on their way; in each round its own is there, and another one comes.
//% macro begin(t)
//%   if t.stages > 1
#pragma unroll 1
  for (ec_int round = first_round; round < first_round + ${t.stages - 1}; ++round) {
    if (round < rounds) bring(round);
    ec_copies_commit();
  }
//%   endif
//%- endmacro
//% macro next_tile(t)
//%   if t.stages > 1
    ec_copies_wait<${t.stages - 2}>();
    ec_barrier();
    if (round + ${t.stages - 1} < rounds) bring(round + ${t.stages - 1});
    ec_copies_commit();
//%   else
    ec_barrier();
    bring(round);
    ec_copies_commit();
    ec_copies_wait<0>();
    ec_barrier();
//%   endif
//%- endmacro
