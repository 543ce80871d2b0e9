//# block_position: ``first_m``, ``panel`` and ``batch`` of the block of the result that a work-item keeps in registers, and
//# ``m0``, ``m1``, ... of its rows; rows past the last are the last one again.
//% macro block_position(k, p)
//%   if k.threads > 1
  ec_int rest = ec_group() * ${k.threads} + ec_thread();
  if (rest >= ${p.tasks}) return;
  const ec_int panel = rest % ${p.panels};
  rest /= ${p.panels};
  const ec_int first_m = rest % ${p.row_tiles} * ${p.tile_rows}, batch = rest / ${p.row_tiles};
//%   else
  ec_int rest = ec_group();
  const ec_int first_m = rest % ${p.row_tiles} * ${p.tile_rows};
  rest /= ${p.row_tiles};
  const ec_int panel = rest % ${p.panels}, batch = rest / ${p.panels};
//%   endif
  (void)batch;
//%   for i in range(p.tile_rows)
  const ec_int m${i} = ${"ec_min_int(first_m + %d, %d)" % (i, p.rows - 1) if p.rows % p.tile_rows else "first_m + %d" % i};
//%   endfor
//%- endmacro
