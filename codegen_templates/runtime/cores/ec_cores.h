/* ec_cores.h: the cores that a thread runs on.
 *
 * A list of cores is written as Linux does: "4-7", "0,2-3". The threads of a pool that is made afterwards
 * stay on the same cores. */
#ifndef EC_CORES_H
#define EC_CORES_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    EC_CORES_KEPT = 0,  /* on these cores from now on */
    EC_CORES_FREE = 1,  /* "any", a system that does not do this, or cores that the process may not all use */
    EC_CORES_WRONG = -1 /* no list of cores */
};

/* Keeps the calling thread on these cores, if the process may use every one of them. */
int ec_cores_keep(const char *list);

#ifdef __cplusplus
}
#endif

#endif
