/* ec_simd_codes.h: products of numbers with weights of few bits, by dot products of bytes.
 *
 * Included by ec_simd.h only. A group of floats becomes integers with a scale of their own, and each
 * integer a few bytes (planes), the high one first: 127 is the largest of one, 127 * 256^2 of three. */
#ifndef EC_SIMD_CODES_H
#define EC_SIMD_CODES_H

/* Adds to each lane of c the products of four codes from 0 to 127 with four signed bytes of s. */
#if !defined(EC_HAS_DOT_CODES)
EC_INLINE ec_vi ec_dot_codes(ec_vi c, ec_vi codes, ec_vi s)
{
#if defined(__ARM_NEON)
    return ec_dot_ss(c, codes, s);
#else
    return ec_dot_us(c, codes, s);
#endif
}
#endif

/* The integers of a group of floats at s: byte i of plane p is at bytes[p * group + i]. Sets the scale of the group and the
 * sum of every plane. NaN and infinities make a scale that is not finite. */
EC_INLINE void ec_round_group(const float *s, int group, int planes, int8_t *bytes, float *scale, int32_t *sums)
{
    const float range = planes == 1 ? 127.0f : 127.0f * 65536.0f;
    ec_vf peak = ec_set1(0.0f);
    for (int i = 0; i < group; i += EC_VL)
        peak = ec_max(ec_abs(ec_load(s + i)), peak);
    const float most = ec_hmax(peak);
    const ec_vf up = ec_set1(most > 1e-30f ? range / most : 0.0f);
    ec_vi first = ec_set1_i(0), second = first, third = first;
    for (int i = 0; i < group; i += EC_VL) {
        ec_vi rest = ec_nearest(ec_load(s + i) * up);
        if (planes == 3) {
            const ec_vi low = ec_as_i8(rest);
            rest = ec_sub_i(rest, low) >> 8;
            const ec_vi middle = ec_as_i8(rest);
            rest = ec_sub_i(rest, middle) >> 8;
            ec_store_i8(bytes + group + i, middle);
            ec_store_i8(bytes + 2 * group + i, low);
            second = ec_add_i(second, middle);
            third = ec_add_i(third, low);
        }
        ec_store_i8(bytes + i, rest);
        first = ec_add_i(first, rest);
    }
    *scale = most / range;
    sums[0] = (int32_t)ec_hsum(ec_to_float(first));
    if (planes == 3) {
        sums[1] = (int32_t)ec_hsum(ec_to_float(second));
        sums[2] = (int32_t)ec_hsum(ec_to_float(third));
    }
}

/* A sum of three planes as floats. */
EC_INLINE ec_vf ec_join_planes(ec_vi high, ec_vi middle, ec_vi low)
{
    const ec_vi rest = ec_add_i((ec_vi)((ec_vu_)middle << 8), low);
    return ec_fma(ec_to_float(high), ec_set1(65536.0f), ec_to_float(rest));
}

#endif
