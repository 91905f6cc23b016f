/* The same in C. */
#include <imex/imex.h>
#include <stdio.h>
#include <string.h>

/* A communicator of one rank: linked, and its vector code found. */
static int sums(void) {
  imex_rendezvous* rendezvous = NULL;
  imex_communicator* alone = NULL;
  float value = 3;
  if (imex_rendezvous_create(&rendezvous) != IMEX_OK) return 0;
  const imex_unique_id id = imex_rendezvous_id(rendezvous);
  const int right =
      imex_communicator_create(&id, 0, 1, NULL, &alone) == IMEX_OK &&
      imex_all_reduce(alone, &value, &value, 1, IMEX_FLOAT32, IMEX_SUM, 0) == IMEX_OK && value == 3;
  imex_communicator_end(alone);
  imex_rendezvous_end(rendezvous);
  return right;
}

int main(void) {
  if (!sums()) return 5;
  imex_allocation* memory = NULL;
  if (imex_allocate(1 << 16, NULL, &memory) != IMEX_OK) return 1;
  imex_signal* signal = imex_allocation_data(memory);
  imex_signal_notify(signal, 2);
  uint64_t seen = 0;
  if (imex_signal_wait(signal, 2, NULL, &seen) != IMEX_OK || seen != 2) return 2;
  imex_free(memory);

  imex_session_options options = IMEX_SESSION_OPTIONS_INIT;
  options.channel = "/nonexistent/channel0";
  imex_session* session = NULL;
  if (imex_session_open(&options, &session) != IMEX_NOT_FOUND || session != NULL) return 3;
  if (strcmp(imex_version(), IMEX_VERSION_STRING) != 0) return 4;
  printf("consumer of %s: %s\n", imex_version(), imex_last_error());
  return 0;
}
