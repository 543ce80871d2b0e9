/* ec_level.h: what the code of one level needs of a processor, and whether the processor has it.
 *
 * A level is several sources compiled with options of their own (-march and the like). What code those options allow, the
 * compiler tells in macros: a source of the level that defines EC_LEVEL before it includes this header holds them as
 * bits, in constants alone. The source that chooses a level is compiled without such options, so that it runs anywhere.
 */
#ifndef EC_LEVEL_H
#define EC_LEVEL_H

#if defined(__x86_64__)
/* Bits of the registers of cpuid, as the makers number them, and of xgetbv: what the operating system keeps. */
typedef struct {
    unsigned first_c, seventh_b, seventh_c, seventh_d, more_a, more_d, extended_c, kept;
} ec_level;
#else
/* Bits of the kernel's interface for 64-bit Arm (arch/arm64/include/uapi/asm/hwcap.h). */
typedef struct {
    unsigned long first, second;
} ec_level;
#endif

#ifdef EC_LEVEL
#if defined(__x86_64__)
const ec_level EC_LEVEL = {
    0
#ifdef __SSE3__
    | 1u << 0
#endif
#ifdef __SSSE3__
    | 1u << 9
#endif
#ifdef __FMA__
    | 1u << 12
#endif
#ifdef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_16
    | 1u << 13
#endif
#ifdef __SSE4_1__
    | 1u << 19
#endif
#ifdef __SSE4_2__
    | 1u << 20
#endif
#ifdef __MOVBE__
    | 1u << 22
#endif
#ifdef __POPCNT__
    | 1u << 23
#endif
#ifdef __AVX__
    | 1u << 27 | 1u << 28
#endif
#ifdef __F16C__
    | 1u << 29
#endif
    , 0
#ifdef __BMI__
    | 1u << 3
#endif
#ifdef __AVX2__
    | 1u << 5
#endif
#ifdef __BMI2__
    | 1u << 8
#endif
#ifdef __AVX512F__
    | 1u << 16
#endif
#ifdef __AVX512DQ__
    | 1u << 17
#endif
#ifdef __AVX512IFMA__
    | 1u << 21
#endif
#ifdef __AVX512CD__
    | 1u << 28
#endif
#ifdef __AVX512BW__
    | 1u << 30
#endif
#ifdef __AVX512VL__
    | 1u << 31
#endif
    , 0
#ifdef __AVX512VBMI__
    | 1u << 1
#endif
#ifdef __AVX512VBMI2__
    | 1u << 6
#endif
#ifdef __GFNI__
    | 1u << 8
#endif
#ifdef __AVX512VNNI__
    | 1u << 11
#endif
#ifdef __AVX512BITALG__
    | 1u << 12
#endif
#ifdef __AVX512VPOPCNTDQ__
    | 1u << 14
#endif
    , 0
#ifdef __AVX512FP16__
    | 1u << 23
#endif
    , 0
#ifdef __AVXVNNI__
    | 1u << 4
#endif
#ifdef __AVX512BF16__
    | 1u << 5
#endif
#ifdef __AVXIFMA__
    | 1u << 23
#endif
    , 0
#ifdef __AVXVNNIINT8__
    | 1u << 4
#endif
    , 0
#ifdef __LAHF_SAHF__
    | 1u << 0
#endif
#ifdef __LZCNT__
    | 1u << 5
#endif
    , 0
#ifdef __AVX__
    | 0x6u
#endif
#ifdef __AVX512F__
    | 0xe0u
#endif
};
#else
const ec_level EC_LEVEL = {
    0
#ifdef __ARM_FEATURE_CRC32
    | 1ul << 7
#endif
#ifdef __ARM_FEATURE_ATOMICS
    | 1ul << 8
#endif
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
    | 1ul << 9 | 1ul << 10
#endif
#ifdef __ARM_FEATURE_QRDMX
    | 1ul << 12
#endif
#ifdef __ARM_FEATURE_JCVT
    | 1ul << 13
#endif
#ifdef __ARM_FEATURE_COMPLEX
    | 1ul << 14
#endif
#ifdef __ARM_FEATURE_RCPC
    | 1ul << 15
#endif
#ifdef __ARM_FEATURE_DOTPROD
    | 1ul << 20
#endif
#ifdef __ARM_FEATURE_SVE
    | 1ul << 22
#endif
#ifdef __ARM_FEATURE_FP16_FML
    | 1ul << 23
#endif
    , 0
#ifdef __ARM_FEATURE_SVE2
    | 1ul << 1
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    | 1ul << 13
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    | 1ul << 14
#endif
};
#endif

#elif defined(__x86_64__)
#include <cpuid.h>

/* Does this processor have all that a level needs? */
static inline int ec_level_fits(const ec_level *needed)
{
    unsigned a = 0, b = 0, c = 0, d = 0, high = 0;
    ec_level has = {0, 0, 0, 0, 0, 0, 0, 0};
    if (__get_cpuid(1, &a, &b, &c, &d)) has.first_c = c;
    if (has.first_c >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(has.kept), "=d"(high) : "c"(0));
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        has.seventh_b = b, has.seventh_c = c, has.seventh_d = d;
        if (a > 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) has.more_a = a, has.more_d = d;
    }
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) has.extended_c = c;
    (void)high;
    return !((needed->first_c & ~has.first_c) | (needed->seventh_b & ~has.seventh_b) |
             (needed->seventh_c & ~has.seventh_c) | (needed->seventh_d & ~has.seventh_d) |
             (needed->more_a & ~has.more_a) | (needed->more_d & ~has.more_d) |
             (needed->extended_c & ~has.extended_c) | (needed->kept & ~has.kept));
}
#else
#ifdef __linux__
#include <sys/auxv.h>
#endif

/* Does this processor have all that a level needs? Where no system tells, it has what all of them have. */
static inline int ec_level_fits(const ec_level *needed)
{
    ec_level has = {0, 0};
#ifdef __linux__
    has.first = getauxval(AT_HWCAP), has.second = getauxval(AT_HWCAP2);
#endif
    return !((needed->first & ~has.first) | (needed->second & ~has.second));
}
#endif

#endif
