/* Android's 32-bit Arm counts seconds in 32 bits; the headers that a library is compiled with here have 64. */
#include <stdint.h>

typedef struct {
  int32_t seconds, nanoseconds;
} narrow;
typedef struct {
  int64_t seconds;
  int32_t nanoseconds;
} wide;

int clock_gettime(int clock, narrow *time);
__attribute__((visibility("hidden"))) int __clock_gettime64(int clock, wide *time);

int __clock_gettime64(int clock, wide *time) {
  narrow found;
  const int status = clock_gettime(clock, &found);
  time->seconds = found.seconds;
  time->nanoseconds = found.nanoseconds;
  return status;
}
