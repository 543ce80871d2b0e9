/* ec_cpu.h: does this processor have what the code was compiled for?
 *
 * What the code may contain is what the compiler was told (-march and the like), and compilers tell that in macros;
 * what the processor has, it tells itself or the operating system does. Where nobody can be asked, the answer is yes. */
#ifndef EC_CPU_H
#define EC_CPU_H

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))
#include <sys/auxv.h>
#endif

#if defined(__x86_64__) && defined(__AMX_TILE__)
/* Linux keeps the tiles of the matrix unit (AMX) for processes that have asked for them: arch_prctl with
 * ARCH_REQ_XCOMP_PERM, once a process. */
static inline int ec_cpu_may_use_tiles(void)
{
#ifdef __linux__
    long answer = 158;
    __asm__ volatile("syscall" : "+a"(answer) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    return answer == 0;
#else
    return 1;
#endif
}
#endif

#if defined(__x86_64__) || defined(__i386__)
/* Bits of the registers of cpuid, as the makers number them. */
static inline int ec_cpu_asked(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0, none = 0, features = 0;
    int enough = 1;
    (void)a, (void)b, (void)d, (void)features;
#define EC_CPU_NEEDS(word, bit) enough &= (int)((word) >> (bit)) & 1
    __get_cpuid(1, &a, &b, &c, &d);
#ifdef __SSE4_2__
    EC_CPU_NEEDS(c, 20);
#endif
#ifdef __FMA__
    EC_CPU_NEEDS(c, 12);
#endif
#ifdef __F16C__
    EC_CPU_NEEDS(c, 29);
#endif
#ifdef __AVX__
    EC_CPU_NEEDS(c, 28);
    EC_CPU_NEEDS(c, 27);
    if (enough) { /* the operating system has to keep the registers, too */
        __asm__ volatile("xgetbv" : "=a"(features), "=d"(none) : "c"(0));
        EC_CPU_NEEDS(features, 2);
#ifdef __AVX512F__
        EC_CPU_NEEDS(features, 5);
        EC_CPU_NEEDS(features, 6);
        EC_CPU_NEEDS(features, 7);
#endif
    }
#endif
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) b = c = d = 0;
#ifdef __AVX2__
    EC_CPU_NEEDS(b, 5);
#endif
#ifdef __AVX512F__
    EC_CPU_NEEDS(b, 16);
#endif
#ifdef __AVX512DQ__
    EC_CPU_NEEDS(b, 17);
#endif
#ifdef __AVX512BW__
    EC_CPU_NEEDS(b, 30);
#endif
#ifdef __AVX512VL__
    EC_CPU_NEEDS(b, 31);
#endif
#ifdef __AVX512VNNI__
    EC_CPU_NEEDS(c, 11);
#endif
#ifdef __AVX512FP16__
    EC_CPU_NEEDS(d, 23);
#endif
#ifdef EC_USES_TILES
    EC_CPU_NEEDS(d, 22);
    EC_CPU_NEEDS(d, 24);
#endif
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) a = 0;
#ifdef __AVXVNNI__
    EC_CPU_NEEDS(a, 4);
#endif
#ifdef __AVX512BF16__
    EC_CPU_NEEDS(a, 5);
#endif
#undef EC_CPU_NEEDS
#ifdef EC_USES_TILES
    if (enough) enough = ec_cpu_may_use_tiles();
#endif
    (void)none;
    return enough;
}
#endif

static inline int ec_cpu_is_enough(void)
{
    int enough = 1;
#if defined(__x86_64__) || defined(__i386__)
    /* Asking takes microseconds in a virtual machine, so the answer is kept: 0 is not yet, 1 no, 2 yes. */
    static int known;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer == 0) {
        answer = 1 + ec_cpu_asked();
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    enough = answer == 2;
#elif defined(__linux__) && defined(__aarch64__)
    /* Bits of the kernel's interface (arch/arm64/include/uapi/asm/hwcap.h), which older headers do not all name. */
#define EC_CPU_NEEDS(entry, bit) enough &= (int)(getauxval(entry) >> (bit)) & 1
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
    EC_CPU_NEEDS(AT_HWCAP, 10);
#endif
#ifdef __ARM_FEATURE_DOTPROD
    EC_CPU_NEEDS(AT_HWCAP, 20);
#endif
#ifdef __ARM_FEATURE_SVE
    EC_CPU_NEEDS(AT_HWCAP, 22);
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS
    if (enough) { /* vectors have the size that the code was compiled for, neither less nor more */
        unsigned long bytes;
        __asm__ volatile("cntb %0" : "=r"(bytes));
        enough = bytes * 8 == __ARM_FEATURE_SVE_BITS;
    }
#endif
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    EC_CPU_NEEDS(AT_HWCAP2, 13);
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    EC_CPU_NEEDS(AT_HWCAP2, 14);
#endif
#undef EC_CPU_NEEDS
#elif defined(__linux__) && defined(__arm__)
#ifdef __ARM_NEON
    enough &= (int)(getauxval(AT_HWCAP) >> 12) & 1;
#endif
#elif defined(__linux__) && defined(__riscv)
#ifdef __riscv_vector
    enough &= (int)(getauxval(AT_HWCAP) >> ('V' - 'A')) & 1;
#endif
#endif
    return enough;
}

#endif
