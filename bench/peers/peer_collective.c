// One MPI collective, measured as ours is: all ranks leave a spin barrier at one agreed tick of the
// clock, each has rewritten its buffer before, untimed, and a sample is the slowest rank's time
// from that tick. JSON lines on stdout.
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <mpi.h>

#include "placement.h"
#include "tick.h"

enum { kSamplesMin = 9 };

typedef enum {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSendRecv,
  kPut,
  kPutSignal,
  kBarrier,
  kOperations
} Operation;
static const char* const kNames[kOperations] = {
    "all-reduce", "reduce-scatter", "all-gather", "broadcast",  "reduce",
    "all-to-all", "send-recv",      "put",        "put-signal", "barrier"};

typedef struct {
  Operation operation;
  int rank, ranks;
  bool yields;  // more ranks than cores
  double tick_ns;
  Shared* shared;
  uint64_t arrivals;  // barriers passed so far
  float *data, *out;  // `out` receives where MPI has no sensible form in place
  MPI_Win window;     // of puts: `out`, and behind it the signal
  size_t signal_at;   // in the window
  uint64_t signals;   // that this rank has sent; it gets as many
  size_t bytes;
  int count, part;  // floats in a vector; in one rank's share of it
} Bench;

typedef struct {
  double median_us, mad_us, min_us, max_us, p99_us;
  int n;
} Summary;

// --- the operation and its check ---

// Done when the peer would see the bytes.
static void put(Bench* b, int to) {
  MPI_Put(b->data, b->count, MPI_FLOAT, to, 0, b->count, MPI_FLOAT, b->window);
  MPI_Win_flush(to, b->window);
}

// A word of one writer behind the bytes. Looking for messages makes libraries move that need it.
static void put_signal(Bench* b, int to) {
  put(b, to);
  const uint64_t signal = ++b->signals;
  MPI_Put(&signal, 1, MPI_UINT64_T, to, (MPI_Aint)b->signal_at, 1, MPI_UINT64_T, b->window);
  MPI_Win_flush(to, b->window);
  const volatile uint64_t* arrived = (const uint64_t*)((const char*)b->out + b->signal_at);
  for (unsigned looks = 1; *arrived < signal; ++looks) {
    MPI_Win_sync(b->window);
    int found = 0;
    if (looks % 64 == 0)
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    if (b->yields) sched_yield();
  }
  MPI_Win_sync(b->window);
}

static void call(Bench* b) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int next = (b->rank + 1) % b->ranks, previous = (b->rank + b->ranks - 1) % b->ranks;
  switch (b->operation) {
    case kAllReduce:
      MPI_Allreduce(MPI_IN_PLACE, b->data, b->count, MPI_FLOAT, MPI_SUM, world);
      break;
    case kReduceScatter:
      MPI_Reduce_scatter_block(MPI_IN_PLACE, b->data, b->part, MPI_FLOAT, MPI_SUM, world);
      break;
    case kAllGather:
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, b->data, b->part, MPI_FLOAT, world);
      break;
    case kBroadcast:
      MPI_Bcast(b->data, b->count, MPI_FLOAT, 0, world);
      break;
    case kReduce:
      MPI_Reduce(b->rank == 0 ? MPI_IN_PLACE : b->data, b->data, b->count, MPI_FLOAT, MPI_SUM, 0,
                 world);
      break;
    case kAllToAll:
      MPI_Alltoall(b->data, b->part, MPI_FLOAT, b->out, b->part, MPI_FLOAT, world);
      break;
    case kSendRecv:
      MPI_Sendrecv(b->data, b->count, MPI_FLOAT, next, 0, b->out, b->count, MPI_FLOAT, previous, 0,
                   world, MPI_STATUS_IGNORE);
      break;
    case kPut:
      put(b, next);
      break;
    case kPutSignal:
      put_signal(b, next);
      break;
    case kBarrier:
      MPI_Barrier(world);
      break;
    case kOperations:
      break;
  }
}

// Small whole numbers: their sums are exact in any order.
static float input(int rank, int i) { return (float)((i % 61) * 3 + rank * 7 + 1); }

static float sum_of_inputs(int ranks, int i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, i);
  return sum;
}

// Result element i of this rank, `at` its place in `data` or `out`.
static float expected(const Bench* b, int i) {
  const int previous = (b->rank + b->ranks - 1) % b->ranks;
  switch (b->operation) {
    case kReduceScatter:
      return sum_of_inputs(b->ranks, b->rank * b->part + i);
    case kAllGather:
      return input(i / b->part, i);
    case kBroadcast:
      return input(0, i);
    case kAllToAll:
      return input(i / b->part, b->rank * b->part + i % b->part);
    case kSendRecv:
    case kPut:
    case kPutSignal:
      return input(previous, i);
    default:
      return sum_of_inputs(b->ranks, i);
  }
}

static bool puts_data(const Bench* b) { return b->operation == kPut || b->operation == kPutSignal; }

static void verify(Bench* b) {
  for (int i = 0; i < b->count; ++i) b->data[i] = input(b->rank, i);
  memset(b->out, 0, b->bytes);
  if (puts_data(b)) MPI_Barrier(MPI_COMM_WORLD);  // nobody clears what a peer has put
  call(b);
  if (puts_data(b)) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(b->window);
  }
  const bool nothing = b->operation == kBarrier || (b->operation == kReduce && b->rank != 0);
  const bool apart = b->operation == kAllToAll || b->operation == kSendRecv || puts_data(b);
  const float* result = apart ? b->out : b->data;
  const int count = nothing ? 0 : b->operation == kReduceScatter ? b->part : b->count;
  for (int i = 0; i < count; ++i) {
    if (result[i] == expected(b, i)) continue;
    fprintf(stderr, "peer_collective: %s of %zu bytes: rank %d has %g at %d, not %g\n",
            kNames[b->operation], b->bytes, b->rank, (double)result[i], i, (double)expected(b, i));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

// --- measuring ---

static void meet(Bench* b) {
  publish(&b->shared->arrived[b->rank], ++b->arrivals);
  for (int r = 0; r < b->ranks; ++r) wait_for(&b->shared->arrived[r], b->arrivals, b->yields);
}

// Rank 0 picks a tick that lies far enough ahead for all to have read it; all leave when their
// clock shows it.
static uint64_t leave_together(Bench* b, uint64_t last_start) {
  Shared* s = b->shared;
  publish(&s->arrived[b->rank], ++b->arrivals);
  uint64_t start = 0;
  if (b->rank == 0) {
    for (int r = 1; r < b->ranks; ++r) wait_for(&s->arrived[r], b->arrivals, b->yields);
    start = ticks() + (uint64_t)((b->yields ? 20000 : 2000) / b->tick_ns);
    publish(&s->start, start);
  } else {
    start = wait_for(&s->start, last_start + 1, b->yields);
  }
  while (ticks() < start) {
    if (b->yields) sched_yield();
  }
  return start;
}

static void run_block(Bench* b, int n) {
  Shared* s = b->shared;
  uint64_t start = atomic_load_explicit(&s->start.value, memory_order_acquire);
  meet(b);  // nobody has moved `start` before all have read it
  for (int k = 0; k < n; ++k) {
    for (int i = 0; i < b->count; ++i) b->data[i] = (float)(b->rank + k % 8);
    if (puts_data(b)) {
      meet(b);  // the peer's put has ended
      memset(b->out, k % 8, b->bytes);
    }
    start = leave_together(b, start);
    call(b);
    s->ends[b->rank][k] = ticks();
    if (b->rank == 0) s->starts[k] = start;
  }
  meet(b);
}

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static Summary summarize(const Bench* b, int n) {
  double* us = malloc((size_t)n * sizeof(double));
  if (us == NULL) fail("out of memory");
  for (int k = 0; k < n; ++k) {
    uint64_t end = 0;
    for (int r = 0; r < b->ranks; ++r)
      end = b->shared->ends[r][k] > end ? b->shared->ends[r][k] : end;
    us[k] = (double)(end - b->shared->starts[k]) * b->tick_ns / 1e3;
  }
  qsort(us, (size_t)n, sizeof(double), compare_doubles);
  Summary result = {.median_us = us[n / 2], .min_us = us[0], .max_us = us[n - 1], .n = n};
  result.p99_us = us[(n * 99 + 99) / 100 - 1];
  for (int k = 0; k < n; ++k)
    us[k] = us[k] > result.median_us ? us[k] - result.median_us : result.median_us - us[k];
  qsort(us, (size_t)n, sizeof(double), compare_doubles);
  result.mad_us = us[n / 2];
  free(us);
  return result;
}

// Rank 0 decides, all follow.
static int agree(Bench* b, int count) {
  if (b->rank == 0) publish(&b->shared->count, (uint64_t)count);
  meet(b);
  const int agreed = (int)atomic_load_explicit(&b->shared->count.value, memory_order_acquire);
  meet(b);
  return agreed;
}

static int clamp(double value, int low, int high) {
  return value < low ? low : value > high ? high : (int)value;
}

// Warms up until three successive medians agree within 5 %, or half of the time is gone; then
// measures.
static Summary measure(Bench* b, double seconds) {
  const uint64_t first = monotonic_ns();
  run_block(b, 3);
  double call_s = (double)(monotonic_ns() - first) / 3e9;
  const int block = agree(b, clamp(0.05 * seconds / call_s, 3, 1000));
  double older = 0, old = 0;
  for (int settled = 0; !settled;) {
    const uint64_t begin = monotonic_ns();
    run_block(b, block);
    const uint64_t end = monotonic_ns();
    call_s = (double)(end - begin) / 1e9 / block;
    const double median = b->rank == 0 ? summarize(b, block).median_us : 0;
    const double low = old < older ? old : older, high = old < older ? older : old;
    const bool steady = median < 1.05 * low && median > 0.95 * high;
    settled = agree(b, steady || (double)(end - first) / 1e9 > seconds / 2);
    older = old, old = median;
  }
  const int n = agree(b, clamp(seconds / call_s, kSamplesMin, kMaxSamples));
  run_block(b, n);
  return b->rank == 0 ? summarize(b, n) : (Summary){0};
}

// --- surroundings ---

static double distance_ns(Bench* b) {
  meet(b);
  const double ns =
      b->rank < 2 && b->ranks > 1 ? round_trip_ns(&b->shared->ping, b->rank == 0, b->tick_ns) : 0;
  if (b->rank >= 2) {  // out of the way of the two that measure
    const struct timespec nap = {.tv_nsec = 200000};
    while (atomic_load_explicit(&b->shared->arrived[0].value, memory_order_acquire) <= b->arrivals)
      nanosleep(&nap, 0);
  }
  meet(b);
  return ns;
}

// "huge" when the kernel backs the buffer with huge pages, else "small".
static const char* pages_of(const void* address) {
  FILE* file = fopen("/proc/self/smaps", "r");
  char line[512];
  unsigned long low, high, kib;
  bool inside = false, huge = false;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
      inside = low <= (uintptr_t)address && (uintptr_t)address < high;
    if (inside && sscanf(line, "AnonHugePages: %lu", &kib) == 1) huge = kib > 0;
  }
  if (file != NULL) fclose(file);
  return huge ? "huge" : "small";
}

static float* buffer(size_t bytes, const char* pages) {
  void* p = NULL;
  if (posix_memalign(&p, 2u << 20, bytes) != 0) fail("no memory for the buffers");
  if (strcmp(pages, "auto") != 0)
    madvise(p, bytes, strcmp(pages, "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memset(p, 0, bytes);
  return p;
}

// Memory that a peer may write: the library's own, which lets it be written in place.
static void make_window(Bench* b, size_t bytes) {
  b->signal_at = (bytes + 63) / 64 * 64;
  int *model = NULL, found = 0;
  MPI_Win_allocate((MPI_Aint)b->signal_at + 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &b->out,
                   &b->window);
  MPI_Win_get_attr(b->window, MPI_WIN_MODEL, &model, &found);
  if (!found || *model != MPI_WIN_UNIFIED) fail("puts into separate copies are not measured");
  memset(b->out, 0, b->signal_at + 64);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, b->window);
  MPI_Barrier(MPI_COMM_WORLD);
}

static Shared* map_shared(const char* path, int ranks) {
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)shared_bytes(ranks)) != 0)
    fail("cannot create the --shared file");
  void* p =
      mmap(NULL, shared_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (p == MAP_FAILED) fail("cannot map the --shared file");
  close(fd);
  return p;
}

static void print_row(const Bench* b, Summary s, double before_ns, double after_ns) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(library, &length);
  library[strcspn(library, ",\n")] = '\0';
  for (char* c = library; *c != '\0'; ++c) *c = *c == '\t' ? ' ' : *c;
  printf(
      "{\"operation\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"median_us\":%.4f,\"mad_us\":%.4f,\"min_"
      "us\":%.4f,"
      "\"max_us\":%.4f,\"p99_us\":%.4f,\"n\":%d,\"checked\":true,\"round_trip_ns\":[%.1f,%.1f],"
      "\"core_distance\":\"%s\",\"pages\":\"%s\","
      "\"library\":\"%s\"}\n",
      kNames[b->operation], b->ranks, b->bytes, s.median_us, s.mad_us, s.min_us, s.max_us, s.p99_us,
      s.n, before_ns, after_ns, core_distance(before_ns, after_ns), pages_of(b->data), library);
  fflush(stdout);
}

static void measure_size(Bench* b, size_t bytes, double seconds) {
  b->bytes = bytes;
  b->part = (int)(bytes / sizeof(float)) / b->ranks;
  b->count = b->operation == kBarrier ? 0 : (int)(bytes / sizeof(float));
  const bool shared_out =
      b->operation == kReduceScatter || b->operation == kAllGather || b->operation == kAllToAll;
  if (shared_out) b->count = b->part * b->ranks;
  verify(b);
  const double before_ns = distance_ns(b);
  const Summary summary = measure(b, seconds);
  const double after_ns = distance_ns(b);
  verify(b);
  if (b->rank == 0) print_row(b, summary, before_ns, after_ns);
}

// --- options ---

typedef struct {
  Operation operation;
  const char *sizes, *cores, *shared, *pages;
  double seconds;
} Options;

static Options read_options(int argc, char** argv) {
  static const struct option kOptions[] = {
      {"operation", 1, 0, 'o'}, {"sizes", 1, 0, 's'}, {"cores", 1, 0, 'c'}, {"shared", 1, 0, 'm'},
      {"seconds", 1, 0, 't'},   {"pages", 1, 0, 'p'}, {0, 0, 0, 0}};
  Options o = {kAllReduce, "8", "0,1", NULL, "auto", 0.1};
  for (int c; (c = getopt_long(argc, argv, "", kOptions, NULL)) != -1;) {
    switch (c) {
      case 'o':
        for (o.operation = 0;
             o.operation < kOperations && strcmp(optarg, kNames[o.operation]) != 0;)
          ++o.operation;
        break;
      case 's':
        o.sizes = optarg;
        break;
      case 'c':
        o.cores = optarg;
        break;
      case 'm':
        o.shared = optarg;
        break;
      case 't':
        o.seconds = atof(optarg);
        break;
      case 'p':
        o.pages = optarg;
        break;
      default:
        o.operation = kOperations;
    }
  }
  if (o.operation == kOperations || o.shared == NULL || o.seconds <= 0) {
    fprintf(stderr,
            "usage: mpirun -n 2 peer_collective --shared FILE [--operation all-reduce] [--sizes "
            "8,4096]\n"
            "         [--cores 0,1] [--seconds 0.1] [--pages auto|huge|small]\n"
            "FILE: a new file in /dev/shm. Operations: all-reduce, reduce-scatter, all-gather, "
            "broadcast, reduce,\n"
            "all-to-all, send-recv, put, put-signal, barrier. Rank r runs on core number r modulo "
            "the number of "
            "cores.\n");
    exit(2);
  }
  return o;
}

// The numbers of "8,64,4096"; returns how many.
static int numbers(const char* text, long* values, int values_max) {
  int n = 0;
  for (char* end = NULL; *text != '\0' && n < values_max; text = *end == ',' ? end + 1 : end) {
    values[n] = strtol(text, &end, 10);
    if (end == text || (*end != ',' && *end != '\0') || values[n] < 0)
      fail("--sizes and --cores want 1,2,3");
    ++n;
  }
  return n;
}

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a killed launcher leaves no rank behind
  const Options options = read_options(argc, argv);
  MPI_Init(&argc, &argv);
  Bench b = {.operation = options.operation};
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
  long sizes[64], cores[kMaxRanks], bytes_max = 64;
  const int size_count = numbers(options.sizes, sizes, 64),
            core_count = numbers(options.cores, cores, kMaxRanks);
  if (b.ranks > kMaxRanks || core_count == 0) fail("at most 72 ranks, at least one core");
  pin_to((int)cores[b.rank % core_count]);
  b.yields = b.ranks > core_count;
  b.tick_ns = ns_per_tick();
  b.shared = map_shared(options.shared, b.ranks);
  for (int i = 0; i < size_count; ++i) bytes_max = sizes[i] > bytes_max ? sizes[i] : bytes_max;
  b.data = buffer((size_t)bytes_max, options.pages);
  if (puts_data(&b))
    make_window(&b, (size_t)bytes_max);
  else
    b.out = buffer((size_t)bytes_max, options.pages);
  for (int i = 0; i < size_count; ++i) measure_size(&b, (size_t)sizes[i], options.seconds);
  if (puts_data(&b)) {
    MPI_Win_unlock_all(b.window);
    MPI_Win_free(&b.window);
  }
  MPI_Finalize();
  return 0;
}
