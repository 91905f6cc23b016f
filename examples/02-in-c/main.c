/* The same in C: docs/guide/02-in-c.md.
 *
 *   02-in-c CHANNEL      or $IMEX_CHANNEL
 *
 * Rank 0 exports a page, rank 1 imports it, counts with rank 0 to ten and is told when it ends. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <imex/imex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRounds = 10, kTimeoutMs = 30000 };

/* What lies in the shared memory; all zero is a good start. */
struct layout {
  imex_signal ping;
  imex_signal pong;
  int number;
};

static int failed(int rank, const char* what) {
  fprintf(stderr, "rank %d: %s: %s\n", rank, what, imex_last_error());
  return 1;
}

static int open_session(const char* channel, imex_session** session) {
  imex_session_options options = IMEX_SESSION_OPTIONS_INIT;
  options.channel = channel;
  return imex_session_open(&options, session);
}

/* Every wait has a deadline, and ends when a peer of the scope is lost. */
static imex_wait_options guarded(const imex_session* session) {
  imex_wait_options options = IMEX_WAIT_OPTIONS_INIT;
  options.deadline_ns = imex_deadline_after_ms(kTimeoutMs);
  options.scope = imex_default_scope(session);
  return options;
}

static int count_as_exporter(imex_session* session, imex_allocation* memory) {
  struct layout* shared = imex_allocation_data(memory);
  for (int round = 1; round <= kRounds; ++round) {
    shared->number = round * round;
    imex_signal_notify(&shared->ping, 1);
    const imex_wait_options options = guarded(session);
    if (imex_signal_wait(&shared->pong, (uint64_t)round, &options, NULL) != IMEX_OK) {
      return failed(0, "wait for rank 1");
    }
  }
  printf("rank 0: rank 1 has answered %d times\n", kRounds);
  return 0;
}

static int run_exporter(const char* channel, int to_peer) {
  int result = 1;
  imex_session* session = NULL;
  imex_allocation* memory = NULL;
  imex_export* exported = NULL;
  imex_export_options options = IMEX_EXPORT_OPTIONS_INIT;
  options.rank = 0;
  if (open_session(channel, &session) != IMEX_OK) {
    failed(0, "open");
  } else if (imex_allocate(4096, NULL, &memory) != IMEX_OK) {
    failed(0, "allocate");
  } else {
    options.scope = imex_default_scope(session); /* losing an importer ends our waits */
    if (imex_export_memory(session, memory, &options, &exported) != IMEX_OK) {
      failed(0, "export");
    } else {
      const imex_handle handle = imex_export_handle(exported);
      if (write(to_peer, handle.bytes, sizeof handle.bytes) == (ssize_t)sizeof handle.bytes) {
        result = count_as_exporter(session, memory);
      }
    }
  }
  imex_export_end(exported); /* NULL is fine */
  imex_free(memory);
  imex_session_close(session);
  return result;
}

static int count_as_importer(imex_session* session, imex_import* imported) {
  struct layout* shared = imex_import_data(imported);
  for (int round = 1; round <= kRounds; ++round) {
    const imex_wait_options options = guarded(session);
    if (imex_signal_wait(&shared->ping, (uint64_t)round, &options, NULL) != IMEX_OK) {
      return failed(1, "wait for rank 0");
    }
    if (shared->number != round * round) return 1;
    imex_signal_notify(&shared->pong, 1);
  }
  printf("rank 1: read %d squares, the last is %d\n", kRounds, shared->number);

  /* Rank 0 ends now. That is an event: poll its descriptor beside your own. */
  struct pollfd ready = {imex_event_fd(session), POLLIN, 0};
  imex_event event = {sizeof(imex_event), 0, 0, 0, 0, 0};
  if (poll(&ready, 1, kTimeoutMs) != 1 || imex_next_event(session, &event) != IMEX_OK) {
    return failed(1, "wait for an event");
  }
  printf("rank 1: event %u: rank %u has ended (%s)\n", event.kind, event.rank,
         imex_error_name((int)event.reason));
  return event.kind == IMEX_EVENT_EXPORTER_LOST ? 0 : 1;
}

static int run_importer(const char* channel, int from_peer) {
  int result = 1;
  imex_session* session = NULL;
  imex_import* imported = NULL;
  imex_handle handle;
  imex_import_options options = IMEX_IMPORT_OPTIONS_INIT;
  options.rank = 1;
  if (open_session(channel, &session) != IMEX_OK) {
    failed(1, "open");
  } else if (recv(from_peer, handle.bytes, sizeof handle.bytes, MSG_WAITALL) !=
             (ssize_t)sizeof handle.bytes) {
    fprintf(stderr, "rank 1: no handle came\n");
  } else if (imex_import_memory(session, &handle, &options, &imported) != IMEX_OK) {
    failed(1, "import");
  } else {
    result = count_as_importer(session, imported);
  }
  imex_import_end(imported);
  imex_session_close(session);
  return result;
}

int main(int argc, char** argv) {
  const char* channel = argc > 1 ? argv[1] : getenv("IMEX_CHANNEL");
  if (channel == NULL) {
    fprintf(stderr, "usage: %s CHANNEL   (or set IMEX_CHANNEL)\n", argv[0]);
    return 2;
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  const pid_t child = fork(); /* before any session is opened */
  if (child < 0) return 1;
  if (child == 0) {
    close(pair[0]);
    return run_importer(channel, pair[1]);
  }
  close(pair[1]);
  const int own = run_exporter(channel, pair[0]);
  fflush(stdout);
  close(pair[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return own != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
