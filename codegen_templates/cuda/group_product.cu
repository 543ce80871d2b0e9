//# product_of_rows: a function that adds, to the sums of a group of four warps, 16 steps (8 of TF32) of the product of its 64
//# rows, which registers hold, and ``columns`` columns in shared memory, of which the place of the first is given. Where L is
//# ``turned`` its columns are innermost, 64 of 64 rows at a time; of TF32 they never are. Without ``adds`` the product replaces
//# the sums.
//% macro product_of_rows(name, columns, type, turned)
//%   set wide = columns // 8
//%   set sums = wide * 4
//%   set tf32 = type == "tf32"
EC_DEVICE void ${name}(float (&sums)[${wide}][4], const unsigned (&rows)[4], const ${"float" if tf32 else "ec_" ~ type} *l, ec_int at, bool adds) {
#ifdef EC_ON_CPU
  ec_group_multiply_rows_on_cpu<${wide}, ${turned|int}, ec_multiply_${type}>(sums, rows, l + at, adds);
#elif !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %${sums + 5}, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n${columns}k${8 if tf32 else 16}.f32.${type}.${type} {"
//%   for i in range(0, sums, 8)
      "${"%%%d, %%%d, %%%d, %%%d, %%%d, %%%d, %%%d, %%%d"|format(i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7)}${", " if not loop.last}"
//%   endfor
      "}, {%${sums}, %${sums + 1}, %${sums + 2}, %${sums + 3}}, %${sums + 4}, adds, 1, 1${"" if tf32 else ", %d" % turned};\n}"
      :
//%   for j in range(wide)
      "+f"(sums[${j}][0]), "+f"(sums[${j}][1]), "+f"(sums[${j}][2]), "+f"(sums[${j}][3])${"," if not loop.last}
//%   endfor
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(ec_matrix(l, ${8192 if turned else 16}) + (unsigned)(at * ${4 if tf32 else 2} / 16)), "r"((int)adds));
#endif
}
//%- endmacro
