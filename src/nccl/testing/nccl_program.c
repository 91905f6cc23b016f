/* A program that knows NCCL alone: all operations, types and reductions on host memory, with exact
 * answers, in place and out of place, misaligned, as the tests of NCCL check them.
 *
 *   nccl_program RANKS all     starts that many of itself, and waits for them
 *   nccl_program RANKS lost    the last rank is killed amid an operation; the others go on without
 * it nccl_program RANKS MODE RANK FILE    one rank of these; rank 0 leaves the unique id in FILE
 *
 * Compiles against the headers of NVIDIA as well. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCountMax = 70000, kOffset = 1, kPatience_s = 60 };

static int rank, ranks;
static ncclComm_t comm;
static unsigned char* in_memory;
static unsigned char* out_memory;
static long checks;

static void stop(const char* what, const char* why) {
  fprintf(stderr, "rank %d of %d: %s: %s\n", rank, ranks, what, why);
  exit(1);
}

static void must(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) stop(what, ncclGetLastError(NULL));
}

/* ---- numbers: small integers, which every type holds exactly ---- */

static const char* const type_names[] = {"i8",  "u8",  "i32", "u32",  "i64",  "u64",
                                         "f16", "f32", "f64", "bf16", "e4m3", "e5m2"};

static size_t size_of(ncclDataType_t type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

/* The bits of a small whole number >= 0 in a float with that many bits of exponent and mantissa. */
static unsigned small_float(unsigned value, unsigned exponent_bits, unsigned mantissa_bits) {
  if (value == 0) return 0;
  unsigned lead = 0;
  while (value >> (lead + 1) != 0) ++lead;
  const unsigned bias = (1U << (exponent_bits - 1)) - 1;
  const unsigned rest = value - (1U << lead);
  return (lead + bias) << mantissa_bits |
         (lead <= mantissa_bits ? rest << (mantissa_bits - lead) : rest >> (lead - mantissa_bits));
}

static void put(unsigned char* at, ncclDataType_t type, unsigned value) {
  const int8_t i8 = (int8_t)value;
  const uint8_t u8 = (uint8_t)value;
  const int32_t i32 = (int32_t)value;
  const int64_t i64 = value;
  const float f32 = (float)value;
  const double f64 = value;
  uint16_t two;
  uint8_t one;
  switch ((int)type) {
    case 0:
      memcpy(at, &i8, 1);
      return;
    case 1:
      memcpy(at, &u8, 1);
      return;
    case 2:
    case 3:
      memcpy(at, &i32, 4);
      return;
    case 4:
    case 5:
      memcpy(at, &i64, 8);
      return;
    case 6:
      two = (uint16_t)small_float(value, 5, 10);
      memcpy(at, &two, 2);
      return;
    case 7:
      memcpy(at, &f32, 4);
      return;
    case 8:
      memcpy(at, &f64, 8);
      return;
    case 9:
      two = (uint16_t)small_float(value, 8, 7);
      memcpy(at, &two, 2);
      return;
    case 10:
      one = (uint8_t)small_float(value, 4, 3);
      memcpy(at, &one, 1);
      return;
    default:
      one = (uint8_t)small_float(value, 5, 2);
      memcpy(at, &one, 1);
      return;
  }
}

/* What rank `from` has at place i: with up to 4 ranks sums and products stay below 8, which even
 * e5m2 holds exactly. */
static unsigned value_of(int from, size_t i, ncclRedOp_t op) {
  if (op == ncclProd) return (unsigned)((i + (size_t)from) % 4 == 0 ? 2 : 1);
  if (op == ncclAvg) return (unsigned)(i % 4);
  return (unsigned)((i + (size_t)from) % 2);
}

static unsigned reduced(size_t i, ncclRedOp_t op) {
  unsigned result = value_of(0, i, op);
  for (int from = 1; from < ranks; ++from) {
    const unsigned value = value_of(from, i, op);
    if (op == ncclSum) result += value;
    if (op == ncclProd) result *= value;
    if (op == ncclMax && value > result) result = value;
    if (op == ncclMin && value < result) result = value;
  }
  return result;
}

/* ---- buffers ---- */

static void fill(unsigned char* at, size_t begin, size_t count, ncclDataType_t type, ncclRedOp_t op,
                 int from) {
  for (size_t i = 0; i != count; ++i) {
    put(at + i * size_of(type), type, value_of(from, begin + i, op));
  }
}

/* Elements [begin, begin + count) of what `from` had; from < 0: of the reduction of all. */
static void expect(const unsigned char* at, size_t begin, size_t count, ncclDataType_t type,
                   ncclRedOp_t op, int from, const char* what) {
  unsigned char wanted[8];
  for (size_t i = 0; i != count; ++i) {
    put(wanted, type, from < 0 ? reduced(begin + i, op) : value_of(from, begin + i, op));
    if (memcmp(at + i * size_of(type), wanted, size_of(type)) != 0) {
      char text[128];
      snprintf(text, sizeof text, "%zu elements of %s, operation %d: element %zu is wrong", count,
               type_names[type], (int)op, i);
      stop(what, text);
    }
  }
  ++checks;
}

/* Bytes in front and behind that no operation may touch. */
static unsigned char* guarded(unsigned char* memory, size_t bytes, size_t offset) {
  memset(memory, 0xa5, 64);
  memset(memory + 64 + offset + bytes, 0xa5, 64);
  memset(memory + 64, 0xa5, offset);
  return memory + 64 + offset;
}

static void expect_guards(const unsigned char* memory, size_t bytes, size_t offset,
                          const char* what) {
  for (size_t i = 0; i != 64 + offset; ++i) {
    if (memory[i] != 0xa5) stop(what, "wrote in front of its buffer");
  }
  for (size_t i = 0; i != 64; ++i) {
    if (memory[64 + offset + bytes + i] != 0xa5) stop(what, "wrote behind its buffer");
  }
}

/* ---- operations ---- */

struct shape {
  size_t count;
  size_t offset; /* of the buffers, in bytes */
  ncclDataType_t type;
  int in_place;
};

static void check_all_reduce(struct shape s, ncclRedOp_t op) {
  const size_t bytes = s.count * size_of(s.type);
  unsigned char* out = guarded(out_memory, bytes, s.offset);
  unsigned char* in = s.in_place ? out : guarded(in_memory, bytes, s.offset);
  fill(in, 0, s.count, s.type, op, rank);
  must(ncclAllReduce(in, out, s.count, s.type, op, comm, NULL), "ncclAllReduce");
  expect(out, 0, s.count, s.type, op, -1, "ncclAllReduce");
  if (!s.in_place) expect(in, 0, s.count, s.type, op, rank, "ncclAllReduce, input");
  expect_guards(out_memory, bytes, s.offset, "ncclAllReduce");
}

static void check_reduce(struct shape s, ncclRedOp_t op) {
  const int root = (int)(s.count % (size_t)ranks);
  const size_t bytes = s.count * size_of(s.type);
  unsigned char* out = guarded(out_memory, bytes, s.offset);
  unsigned char* in = s.in_place ? out : guarded(in_memory, bytes, s.offset);
  fill(in, 0, s.count, s.type, op, rank);
  must(ncclReduce(in, rank == root ? out : NULL, s.count, s.type, op, root, comm, NULL),
       "ncclReduce");
  if (rank == root) expect(out, 0, s.count, s.type, op, -1, "ncclReduce");
  expect_guards(out_memory, bytes, s.offset, "ncclReduce");
}

static void check_reduce_scatter(struct shape s, ncclRedOp_t op) {
  const size_t part = s.count * size_of(s.type);
  unsigned char* in = guarded(in_memory, part * (size_t)ranks, s.offset);
  unsigned char* out = s.in_place ? in + part * (size_t)rank : guarded(out_memory, part, s.offset);
  fill(in, 0, s.count * (size_t)ranks, s.type, op, rank);
  must(ncclReduceScatter(in, out, s.count, s.type, op, comm, NULL), "ncclReduceScatter");
  expect(out, s.count * (size_t)rank, s.count, s.type, op, -1, "ncclReduceScatter");
}

static void check_all_gather(struct shape s) {
  const size_t part = s.count * size_of(s.type);
  unsigned char* out = guarded(out_memory, part * (size_t)ranks, s.offset);
  unsigned char* in = s.in_place ? out + part * (size_t)rank : guarded(in_memory, part, s.offset);
  fill(in, 0, s.count, s.type, ncclSum, rank);
  must(ncclAllGather(in, out, s.count, s.type, comm, NULL), "ncclAllGather");
  for (int from = 0; from != ranks; ++from) {
    expect(out + part * (size_t)from, 0, s.count, s.type, ncclSum, from, "ncclAllGather");
  }
  expect_guards(out_memory, part * (size_t)ranks, s.offset, "ncclAllGather");
}

static void check_broadcast(struct shape s) {
  for (int root = 0; root != ranks; ++root) {
    const size_t bytes = s.count * size_of(s.type);
    unsigned char* out = guarded(out_memory, bytes, s.offset);
    unsigned char* in = s.in_place ? out : guarded(in_memory, bytes, s.offset);
    fill(in, 0, s.count, s.type, ncclSum, rank);
    must(s.in_place ? ncclBcast(out, s.count, s.type, root, comm, NULL)
                    : ncclBroadcast(in, out, s.count, s.type, root, comm, NULL),
         "ncclBroadcast");
    expect(out, 0, s.count, s.type, ncclSum, root, "ncclBroadcast");
    expect_guards(out_memory, bytes, s.offset, "ncclBroadcast");
  }
}

/* Everybody to everybody, as programs do it by sends and receives of one group. */
static void check_send_receive(struct shape s) {
  const size_t part = s.count * size_of(s.type);
  unsigned char* in = guarded(in_memory, part, s.offset);
  unsigned char* out = guarded(out_memory, part * (size_t)ranks, s.offset);
  fill(in, 0, s.count, s.type, ncclSum, rank);
  must(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer != ranks; ++peer) {
    must(ncclSend(in, s.count, s.type, peer, comm, NULL), "ncclSend");
    must(ncclRecv(out + part * (size_t)peer, s.count, s.type, peer, comm, NULL), "ncclRecv");
  }
  must(ncclGroupEnd(), "ncclGroupEnd");
  for (int from = 0; from != ranks; ++from) {
    expect(out + part * (size_t)from, 0, s.count, s.type, ncclSum, from, "ncclRecv");
  }
  expect_guards(out_memory, part * (size_t)ranks, s.offset, "ncclRecv");
}

static void check_shape(struct shape s) {
  static const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
  for (size_t i = 0; i != sizeof ops / sizeof *ops; ++i) {
    check_all_reduce(s, ops[i]);
    check_reduce(s, ops[i]);
    check_reduce_scatter(s, ops[i]);
  }
  check_all_gather(s);
  check_broadcast(s);
  if (!s.in_place) check_send_receive(s);
}

static void check_all_shapes(void) {
  static const size_t counts[] = {0, 1, 7, 1000, 4099};
  for (int type = 0; type != 12; ++type) {
    for (size_t c = 0; c != sizeof counts / sizeof *counts; ++c) {
      for (int in_place = 0; in_place != 2; ++in_place) {
        for (size_t offset = 0; offset <= kOffset; ++offset) {
          const struct shape s = {counts[c], offset, (ncclDataType_t)type, in_place};
          check_shape(s);
        }
      }
    }
  }
  for (int in_place = 0; in_place != 2; ++in_place) {
    const struct shape large = {kCountMax, 0, ncclFloat32, in_place};
    check_shape(large);
  }
}

/* ---- the rest of the interface ---- */

static void check_premultiplied_sum(void) {
  float factor = (float)(rank + 1), value = 2, sum = 0;
  ncclRedOp_t op;
  must(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm),
       "ncclRedOpCreatePreMulSum");
  factor = 1000;
  must(ncclAllReduce(&value, &sum, 1, ncclFloat32, op, comm, NULL), "ncclAllReduce, scaled");
  must(ncclRedOpDestroy(op, comm), "ncclRedOpDestroy");
  if (sum != (float)(ranks * (ranks + 1))) stop("ncclAllReduce, scaled", "wrong sum");
  ++checks;
}

static void check_memory(void) {
  void* memory = NULL;
  void* handle = NULL;
  must(ncclMemAlloc(&memory, 4096), "ncclMemAlloc");
  must(ncclCommRegister(comm, memory, 4096, &handle), "ncclCommRegister");
  memset(memory, rank + 1, 4096);
  must(ncclAllReduce(memory, memory, 4096, ncclUint8, ncclMax, comm, NULL), "ncclAllReduce");
  if (((unsigned char*)memory)[4095] != ranks) stop("ncclAllReduce", "wrong maximum");
  must(ncclCommDeregister(comm, handle), "ncclCommDeregister");
  must(ncclMemFree(memory), "ncclMemFree");
  ++checks;
}

static void check_split(void) {
  ncclComm_t half = NULL;
  int half_rank = -1, half_ranks = -1, sum = 1;
  must(ncclCommSplit(comm, rank % 2, -rank, &half, NULL), "ncclCommSplit");
  must(ncclCommUserRank(half, &half_rank), "ncclCommUserRank");
  must(ncclCommCount(half, &half_ranks), "ncclCommCount");
  if (half_ranks != (ranks + 1 - rank % 2) / 2) stop("ncclCommSplit", "wrong number of ranks");
  if (half_rank != half_ranks - 1 - rank / 2) stop("ncclCommSplit", "wrong rank");
  must(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, half, NULL), "ncclAllReduce of a half");
  if (sum != half_ranks) stop("ncclAllReduce of a half", "wrong sum");
  must(ncclCommFinalize(half), "ncclCommFinalize");
  must(ncclCommDestroy(half), "ncclCommDestroy");
  ++checks;
}

static void check_answers(void) {
  int version = 0, count = 0, own = 0;
  ncclResult_t state = ncclInternalError;
  must(ncclGetVersion(&version), "ncclGetVersion");
  if (version < 22700) stop("ncclGetVersion", "older than 2.27");
  must(ncclCommCount(comm, &count), "ncclCommCount");
  must(ncclCommUserRank(comm, &own), "ncclCommUserRank");
  must(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
  if (count != ranks || own != rank || state != ncclSuccess) stop("the communicator", "confused");
  if (ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, comm, NULL) != ncclInvalidArgument) {
    stop("ncclAllReduce of nothing", "accepted");
  }
  if (strlen(ncclGetErrorString(ncclInvalidArgument)) == 0 || strlen(ncclGetLastError(comm)) == 0) {
    stop("an error", "without words");
  }
  ++checks;
}

/* ---- one rank ---- */

static void write_id(const char* path, const ncclUniqueId* id) {
  char fresh[512];
  snprintf(fresh, sizeof fresh, "%s.new", path);
  FILE* file = fopen(fresh, "wb");
  if (file == NULL || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 ||
      rename(fresh, path) != 0) {
    stop(path, "cannot be written");
  }
}

static void read_id(const char* path, ncclUniqueId* id) {
  const time_t end = time(NULL) + kPatience_s;
  for (;;) {
    FILE* file = fopen(path, "rb");
    if (file != NULL) {
      if (fread(id, sizeof *id, 1, file) != 1) stop(path, "cannot be read");
      fclose(file);
      return;
    }
    if (time(NULL) > end) stop(path, "does not appear");
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
  }
}

static void meet(const char* path) {
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (rank == 0) {
    must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    write_id(path, &id);
  } else {
    read_id(path, &id);
  }
  must(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), "ncclCommInitRankConfig");
}

static int check_everything(void) {
  const size_t bytes = (size_t)kCountMax * 8 * (size_t)ranks + 256;
  in_memory = malloc(bytes);
  out_memory = malloc(bytes);
  if (in_memory == NULL || out_memory == NULL) stop("malloc", "no memory");
  check_answers();
  check_all_shapes();
  check_premultiplied_sum();
  check_memory();
  check_split();
  must(ncclCommFinalize(comm), "ncclCommFinalize");
  must(ncclCommDestroy(comm), "ncclCommDestroy");
  free(in_memory);
  free(out_memory);
  if (rank == 0) printf("%d ranks: %ld checks passed\n", ranks, checks);
  return 0;
}

/* Rank 0 waits for a message of the last rank, the others for its part of a sum. */
static int lose_the_last(void) {
  int last = ranks - 1, sum = 1, word = 0;
  must(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, NULL), "ncclAllReduce");
  if (rank == last) raise(SIGKILL);
  const ncclResult_t result = rank == 0
                                  ? ncclRecv(&word, 1, ncclInt32, last, comm, NULL)
                                  : ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, NULL);
  ncclResult_t state = ncclSuccess;
  must(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
  if (result != ncclRemoteError || state != ncclRemoteError) {
    stop("a rank is lost", ncclGetErrorString(result));
  }
  ncclComm_t rest = NULL;
  must(ncclCommShrink(comm, &last, 1, &rest, NULL, NCCL_SHRINK_ABORT), "ncclCommShrink");
  sum = 1;
  must(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, rest, NULL), "ncclAllReduce of the rest");
  if (sum != ranks - 1) stop("ncclAllReduce of the rest", "wrong sum");
  must(ncclCommDestroy(rest), "ncclCommDestroy");
  must(ncclCommAbort(comm), "ncclCommAbort");
  if (rank == 0) printf("%d ranks went on without the last\n", ranks - 1);
  return 0;
}

static int run_all(const char* program, const char* mode) {
  char folder[] = "/tmp/nccl_program.XXXXXX";
  char path[64], number[16], count[16];
  pid_t children[64];
  int failed = 0;
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(path, sizeof path, "%s/id", folder);
  snprintf(count, sizeof count, "%d", ranks);
  for (int i = 0; i != ranks; ++i) {
    snprintf(number, sizeof number, "%d", i);
    children[i] = fork();
    if (children[i] == 0) {
      execl(program, program, count, mode, number, path, (char*)NULL);
      _exit(127);
    }
    if (children[i] < 0) failed = 1;
  }
  for (int i = 0; i != ranks; ++i) {
    int status = 1;
    if (children[i] < 0 || waitpid(children[i], &status, 0) < 0) failed = 1;
    const int killed = strcmp(mode, "lost") == 0 && i == ranks - 1;
    if (killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0) failed = 1;
  }
  unlink(path);
  rmdir(folder);
  return failed;
}

int main(int argc, char** argv) {
  ranks = argc > 1 ? atoi(argv[1]) : 0;
  const int lost = argc > 2 && strcmp(argv[2], "lost") == 0;
  if (ranks < 1 || ranks > 4 || (argc != 3 && argc != 5) ||
      (!lost && strcmp(argv[2], "all") != 0)) {
    fprintf(stderr, "usage: %s RANKS all|lost [RANK FILE]\n", argv[0]);
    return 2;
  }
  if (argc == 3) return run_all(argv[0], argv[2]);
  rank = atoi(argv[3]);
  meet(argv[4]);
  return lost ? lose_the_last() : check_everything();
}
