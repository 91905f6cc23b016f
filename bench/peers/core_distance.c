// core_distance A B: prints the round trip of one cache line between two cores, in nanoseconds.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdlib.h>

#include "tick.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: core_distance CORE CORE, for example: core_distance 0 1\n");
    return 2;
  }
  Word* ping = mmap(NULL, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (ping == MAP_FAILED) fail("no shared memory");
  const double tick_ns = ns_per_tick();
  const pid_t child = fork();
  if (child < 0) fail("cannot fork");
  pin_to(atoi(argv[child == 0 ? 2 : 1]));
  const double trip_ns = round_trip_ns(ping, child != 0, tick_ns);
  if (child == 0) return 0;
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the second core's process failed");
  printf("%.1f\n", trip_ns);
  return 0;
}
