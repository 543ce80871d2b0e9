/* ec_dot8.h: products of eight signed bytes a lane, in plain C. Intrinsics of an instruction would be in their place. */
#ifndef EC_DOT8_H
#define EC_DOT8_H

typedef struct {
    int8_t byte[8];
} ec_eight;

/* Eight bytes of a row of S, for every lane. */
EC_INLINE ec_eight ec_eight_of(const void *p)
{
    ec_eight s;
    memcpy(s.byte, p, 8);
    return s;
}

/* The first n bytes, and zeros behind them. */
EC_INLINE ec_eight ec_eight_first(const void *p, int n)
{
    ec_eight s = {{0}};
    memcpy(s.byte, p, (size_t)n);
    return s;
}

/* Adds the dot product of s with the eight bytes of each lane of l. */
EC_INLINE ec_vi ec_dot8(ec_vi c, ec_eight s, const int32_t *l)
{
    const int8_t *bytes = (const int8_t *)l;
    for (int lane = 0; lane < EC_VL; ++lane)
        for (int k = 0; k < 8; ++k)
            c[lane] += s.byte[k] * bytes[8 * lane + k];
    return c;
}
#endif
