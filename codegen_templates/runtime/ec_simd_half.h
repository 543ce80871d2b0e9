/* ec_simd_half.h: binary16 by integer arithmetic, for machines that cannot convert it.
 *
 * Scaling by a power of two lets the hardware do the rounding, denormals included. */
#ifndef EC_SIMD_HALF_H
#define EC_SIMD_HALF_H

EC_INLINE ec_vf ec_from_half_(ec_vi bits)
{
    ec_vi sign = (ec_vi)((ec_vu_)(bits & 0x8000) << 16), rest = (bits & 0x7fff) << 13;
    ec_vi scaled = (ec_vi)((ec_vf)rest * 0x1p112f);
    ec_vi special = (ec_vi)(rest >= 0x0f800000);
    return (ec_vf)((special & (rest | 0x7f800000)) | (~special & scaled) | sign);
}

EC_INLINE ec_vi ec_to_half_(ec_vf x)
{
    ec_vi sign = (ec_vi)((ec_vu_)x >> 16) & 0x8000, rest = (ec_vi)x & INT32_MAX;
    ec_vi normal = (rest + (ec_vi)(-0x37fff001 + ((rest >> 13) & 1))) >> 13;
    ec_vi aligned = (ec_vi)((ec_vf)rest + 0.5f) - 0x3f000000; /* the last kept bit at 2^-24 */
    ec_vi small = (ec_vi)(rest < 0x38800000), large = (ec_vi)(rest >= 0x47800000);
    ec_vi nan = (ec_vi)(rest > 0x7f800000);
    ec_vi kept = (small & aligned) | (~small & normal);
    kept = (large & (0x7c00 | (nan & 0x200))) | (~large & kept);
    return kept | sign;
}

#endif
