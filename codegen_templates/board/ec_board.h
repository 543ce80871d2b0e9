/* ec_board.h: what a board without an operating system tells of itself. */
#ifndef EC_BOARD_H
#define EC_BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds since the start, by the clock of the core. */
int64_t ec_board_nanoseconds(void);

/* The most bytes of stack that were ever in use. */
size_t ec_board_stack_bytes(void);

#endif
