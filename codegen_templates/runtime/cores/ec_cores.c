/* ec_cores.c: lists of cores, and sched_setaffinity where there is one. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for cpu_set_t */
#endif

#include "ec_cores.h"

#include <string.h>
#ifdef __linux__
#include <sched.h>
#endif

#define EC_CORES_MOST 1024

/* A number below EC_CORES_MOST; -1 where there is none. Moves on behind it. */
static int ec_core(const char **text)
{
    int core = -1;
    for (; **text >= '0' && **text <= '9' && core < EC_CORES_MOST; ++*text)
        core = (core < 0 ? 0 : core) * 10 + (**text - '0');
    return core < EC_CORES_MOST ? core : -1;
}

int ec_cores_keep(const char *list)
{
    unsigned char wanted[EC_CORES_MOST] = {0};
    if (!list)
        return EC_CORES_WRONG;
    if (strcmp(list, "any") == 0)
        return EC_CORES_FREE;
    for (const char *text = list;; ++text) {
        const int first = ec_core(&text);
        int last = first;
        if (first >= 0 && *text == '-') {
            ++text;
            last = ec_core(&text);
        }
        if (first < 0 || last < first || (*text && *text != ','))
            return EC_CORES_WRONG;
        memset(wanted + first, 1, (size_t)(last - first + 1));
        if (!*text)
            break;
    }
#if defined(__linux__) && defined(CPU_SETSIZE)
    cpu_set_t usable, kept;
    if (sched_getaffinity(0, sizeof usable, &usable))
        return EC_CORES_FREE;
    CPU_ZERO(&kept);
    for (size_t core = 0; core < EC_CORES_MOST; ++core) {
        if (!wanted[core])
            continue;
        if (core >= CPU_SETSIZE || !CPU_ISSET(core, &usable))
            return EC_CORES_FREE;
        CPU_SET(core, &kept);
    }
    return sched_setaffinity(0, sizeof kept, &kept) ? EC_CORES_FREE : EC_CORES_KEPT;
#else
    return EC_CORES_FREE;
#endif
}
