/* ec_simd_panels.h: panels of contractions that are packed while a network runs.
 *
 * Included by ec_simd.h only. A row of a panel has `width` lanes, whole vectors; `live` of them are columns. */
#ifndef EC_SIMD_PANELS_H
#define EC_SIMD_PANELS_H

/* Bytes of four rows beside one another in each lane: n rows and count lanes, and zeros for the others. */
EC_INLINE ec_vi ec_four_rows_(const uint8_t *p, ptrdiff_t step, int n, int count)
{
    ec_vi rows[4];
    for (int i = 0; i < 4; ++i)
        rows[i] = i >= n || count <= 0 ? ec_set1_i(0) : count >= EC_VL ? ec_load_u8(p + i * step) : ec_load_u8_n(p + i * step, count);
    return ec_bytes(rows[0], rows[1], rows[2], rows[3]);
}

/* n bytes from p on, step apart, in a word. */
EC_INLINE int32_t ec_word_at_(const uint8_t *p, ptrdiff_t step, int n)
{
    uint32_t word = 0;
    for (int i = 0; i < n; ++i)
        word |= (uint32_t)p[i * step] << 8 * i;
    return (int32_t)word;
}

/* The sum of the four signed bytes of every lane, added to c. */
EC_INLINE ec_vi ec_add_bytes_(ec_vi c, ec_vi word)
{
#if defined(__ARM_NEON)
    return ec_dot_ss(c, ec_set1_i(0x01010101), word);
#else
    return ec_dot_us(c, ec_set1_i(0x01010101), word);
#endif
}

/* Words of four terms of a sum: a term is a byte, step bytes behind the one before, and a column stride bytes behind the
 * one before. Their sign bits are turned first where flip is 1. Sums of the bytes, which are signed then, are added to
 * totals, unless that is NULL. */
EC_INLINE void ec_pack_words(int32_t *panel, int32_t *totals, const void *l, ptrdiff_t step, ptrdiff_t stride, ptrdiff_t terms,
                             int width, int live, int flip)
{
    const uint8_t *const bytes = (const uint8_t *)l;
    const ptrdiff_t whole = terms / 4, words = (terms + 3) / 4;
    const int rest = (int)(terms % 4);
    const uint32_t sign = flip ? 0x80808080u : 0;
    const ec_vi signs = ec_set1_i((int32_t)sign), last_signs = ec_set1_i((int32_t)(sign >> 8 * ((4 - rest) % 4)));
    if (stride == 1) {
        for (int v = 0; v < width; v += EC_VL) {
            ec_vi total = ec_set1_i(0);
            for (ptrdiff_t w = 0; w < whole; ++w) {
                const ec_vi word = ec_four_rows_(bytes + 4 * w * step + v, step, 4, live - v) ^ signs;
                ec_store_i32(panel + w * width + v, word);
                if (totals)
                    total = ec_add_bytes_(total, word);
            }
            if (rest) {
                const ec_vi word = ec_four_rows_(bytes + 4 * whole * step + v, step, rest, live - v) ^ last_signs;
                ec_store_i32(panel + whole * width + v, word);
                if (totals)
                    total = ec_add_bytes_(total, word);
            }
            if (totals)
                ec_store_i32(totals + v, ec_add_i(ec_load_i32(totals + v), total));
        }
        return;
    }
    for (int v = 0; v < width; v += EC_VL) {
        const int count = live - v < EC_VL ? live - v : EC_VL;
        ec_vi total = ec_set1_i(0);
        ptrdiff_t w = 0;
        for (; step == 1 && w + EC_VL <= whole; w += EC_VL) {
            ec_vi block[EC_VL];
            for (int i = 0; i < EC_VL; ++i) {
                block[i] = ec_set1_i(0);
                if (i < count)
                    memcpy(&block[i], bytes + (v + i) * stride + 4 * w, 4 * EC_VL);
            }
            ec_transpose_i(block);
            for (int i = 0; i < EC_VL; ++i) {
                block[i] ^= signs;
                ec_store_i32(panel + (w + i) * width + v, block[i]);
                if (totals)
                    total = ec_add_bytes_(total, block[i]);
            }
        }
        for (; w < words; ++w) {
            int32_t lanes[EC_VL] = {0};
            for (int i = 0; i < count; ++i)
                lanes[i] = ec_word_at_(bytes + (v + i) * stride + 4 * w * step, step, w < whole ? 4 : rest);
            const ec_vi word = ec_load_i32(lanes) ^ (w < whole ? signs : last_signs);
            ec_store_i32(panel + w * width + v, word);
            if (totals)
                total = ec_add_bytes_(total, word);
        }
        if (totals)
            ec_store_i32(totals + v, ec_add_i(ec_load_i32(totals + v), total));
    }
}

/* A square of floats that is turned: the first terms of count columns, stride floats apart, as rows of a panel. */
EC_INLINE void ec_pack_square_(float *panel, const float *l, ptrdiff_t stride, int terms, int width, int count)
{
    ec_vf block[EC_VL];
    for (int i = 0; i < EC_VL; ++i)
        block[i] = i >= count ? ec_set1(0.0f) : terms == EC_VL ? ec_load(l + i * stride) : ec_load_n(l + i * stride, terms);
    ec_transpose(block);
    for (int i = 0; i < EC_VL; ++i)
        if (i < terms)
            ec_store(panel + i * width, block[i]);
}

/* Terms of a sum in floats: a term is step floats behind the one before, and a column stride floats behind the one
 * before. */
EC_INLINE void ec_pack_floats(float *panel, const float *l, ptrdiff_t step, ptrdiff_t stride, ptrdiff_t terms, int width,
                              int live)
{
    const int rows = stride == 1 && step != 1 ? live - live % EC_VL : 0;
    const ptrdiff_t whole = step == 1 ? terms - terms % EC_VL : 0;
    const int rest = (int)(terms - whole), is_turned = step == 1 && rest > EC_VL / 2;
    for (ptrdiff_t k = 0; rows && k < terms; ++k)
        for (int v = 0; v < rows; v += EC_VL) {
            ec_prefetch(l + (k + 16) * step + v); /* rows so far apart that no hardware asks for them */
            ec_store(panel + k * width + v, ec_load(l + k * step + v));
        }
    for (int v = rows; v < width; v += EC_VL) {
        const int count = live - v < EC_VL ? live - v : EC_VL;
        float *const to = panel + v;
        const float *const from = l + v * stride;
        if (step != 1 && count == EC_VL) {
            for (ptrdiff_t k = 0; k < terms; ++k)
                for (int i = 0; i < EC_VL; ++i)
                    to[k * width + i] = from[i * stride + k * step];
            continue;
        }
        for (ptrdiff_t k = 0; k < whole; k += EC_VL)
            if (count == EC_VL)
                ec_pack_square_(to + k * width, from + k, stride, EC_VL, width, EC_VL);
            else
                ec_pack_square_(to + k * width, from + k, stride, EC_VL, width, count);
        if (is_turned && count == EC_VL)
            ec_pack_square_(to + whole * width, from + whole, stride, rest, width, EC_VL);
        else if (is_turned)
            ec_pack_square_(to + whole * width, from + whole, stride, rest, width, count);
        else
            for (ptrdiff_t k = whole; k < terms; ++k)
                for (int i = 0; i < EC_VL; ++i)
                    to[k * width + i] = i < count ? from[i * stride + k * step] : 0.0f;
    }
}

/* Terms of a sum in floats, step floats apart, of columns that lie anywhere behind the first. */
EC_INLINE void ec_pack_columns(float *restrict panel, const float *restrict l, const int32_t *restrict columns, ptrdiff_t step,
                               ptrdiff_t terms, int width)
{
    for (ptrdiff_t k = 0; k < terms; ++k)
        for (int j = 0; j < width; ++j)
            panel[k * width + j] = l[k * step + columns[j]];
}

#endif
