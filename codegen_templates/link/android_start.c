/* Where Android's linker starts a program: the words on the stack are the number of arguments, and then they. */
#include <stdlib.h>

int main(int argc, char **argv);

__asm__(".globl _start\n_start:\n  mov x29, #0\n  mov x30, #0\n  mov x0, sp\n  bl ec_started\n");

_Noreturn void ec_started(long *stack) { exit(main((int)stack[0], (char **)(stack + 1))); }
