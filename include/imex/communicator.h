/**
 * Ranks that swap data through memory which all of them have mapped: part of the C API of libimex.
 * Include <imex/imex.h>, which has the errors and includes this.
 *
 *     imex_rendezvous* place;                                  // in one process
 *     imex_rendezvous_create(&place);
 *     imex_unique_id id = imex_rendezvous_id(place);           // to all ranks, by any means
 *     imex_communicator* comm;                                 // in each of them
 *     imex_communicator_create(&id, rank, ranks, NULL, &comm);
 *     imex_all_reduce(comm, in, out, count, IMEX_FLOAT32, IMEX_SUM, 0);
 *
 * All ranks call the same operations in the same order, with the same sizes, types and options.
 * Buffers: any pointer of any alignment; input and output are the same range or do not overlap.
 * Memory from imex_communicator_allocate() is faster; a call passes such memory in every rank or in
 * none. A lane carries one operation at a time: a second one meanwhile returns
 * IMEX_FAILED_PRECONDITION. After IMEX_PEER_LOST, IMEX_ABORTED or IMEX_DEADLINE_EXCEEDED a
 * communicator is of no more use than for imex_communicator_shrink() and its end.
 */
#ifndef IMEX_COMMUNICATOR_H
#define IMEX_COMMUNICATOR_H

#include <imex/export.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct imex_session imex_session; /* see imex.h */
struct imex_allocation_options;           /* see imex.h */

/** What names a group of ranks before they have met. Treat it as a secret. */
typedef struct imex_unique_id {
  unsigned char bytes[128];
} imex_unique_id;

/** Writes 256 lower-case hexadecimal digits and a NUL. */
IMEX_API void imex_unique_id_to_hex(const imex_unique_id* id, char out[257]);
/** Errors: IMEX_INVALID_ARGUMENT unless exactly 256 hexadecimal digits. */
IMEX_API int imex_unique_id_from_hex(const char* text, imex_unique_id* out);

/** The place where ranks meet. Serves one communicator; must live until that has been created in
 * every rank. */
typedef struct imex_rendezvous imex_rendezvous;
/** For threads of one process, or processes of one user on this machine which see each other's
 * /proc. Errors: IMEX_RESOURCE_EXHAUSTED. */
IMEX_API int imex_rendezvous_create(imex_rendezvous** out);
/** For ranks with sessions on the same channel of one domain, each created with its own session.
 * Errors: as imex_export_memory(). */
IMEX_API int imex_rendezvous_create_on(imex_session* session, imex_rendezvous** out);
IMEX_API void imex_rendezvous_end(imex_rendezvous* rendezvous);
IMEX_API imex_unique_id imex_rendezvous_id(const imex_rendezvous* rendezvous);

/** Element types. The numbers are those of NCCL where it has the type. */
typedef enum imex_data_type {
  IMEX_INT8 = 0,
  IMEX_UINT8 = 1,
  IMEX_INT32 = 2,
  IMEX_UINT32 = 3,
  IMEX_INT64 = 4,
  IMEX_UINT64 = 5,
  IMEX_FLOAT16 = 6,
  IMEX_FLOAT32 = 7,
  IMEX_FLOAT64 = 8,
  IMEX_BFLOAT16 = 9,
  IMEX_FLOAT8_E4M3 = 10, /**< no infinities; beyond 448 becomes NaN */
  IMEX_FLOAT8_E5M2 = 11,
  IMEX_INT16 = 12,
  IMEX_UINT16 = 13
} imex_data_type;

/** Floats accumulate in f32 (f64 for f64) and are rounded once. Integers wrap; their average is
 * the wrapped sum divided toward zero. The minimum or maximum with a NaN is a NaN. */
typedef enum imex_reduce_op {
  IMEX_SUM = 0,
  IMEX_PROD = 1,
  IMEX_MAX = 2,
  IMEX_MIN = 3,
  IMEX_AVG = 4
} imex_reduce_op;

/** How much the bits of a float sum may depend on. */
typedef enum imex_determinism {
  IMEX_ORDER_INVARIANT = 0, /**< on the inputs only: ranks ascending from +0.0, one rounding */
  IMEX_CONSISTENT = 1,      /**< all ranks of one call hold the same bits */
  IMEX_FAST = 2             /**< anything */
} imex_determinism;

/** Ways to do an all_reduce. */
typedef enum imex_algorithm {
  IMEX_ALGORITHM_AUTO = 0,        /**< by trial: the first calls of a size try each likely one */
  IMEX_ALGORITHM_PACKET = 1,      /**< one-shot, data and readiness in one cache line */
  IMEX_ALGORITHM_MAILBOX = 2,     /**< two-shot, answered in the line that asked */
  IMEX_ALGORITHM_RING = 3,        /**< one-shot through a ring of slots */
  IMEX_ALGORITHM_REGISTERED = 4,  /**< two-shot in place; allocated buffers only */
  IMEX_ALGORITHM_SINGLE_COPY = 5, /**< two-shot; reads private memory through the kernel */
  IMEX_ALGORITHM_TWO_LEVEL = 6    /**< in groups of near ranks, then among their first ones; for
                                       IMEX_CONSISTENT and IMEX_FAST, all but IMEX_AVG */
} imex_algorithm;

/** Value of imex_communicator_options.locality: by the L3 cache, else by the NUMA node, that all
 * cores of the calling thread share. */
#define IMEX_LOCALITY_BY_TOPOLOGY 0xffffffffU
/** Value of imex_communicator_options.check: as the environment variable IMEX_CHECK says, 1 or 0,
 * and else as the library was built: off but for builds with IMEX_CHECKED. */
#define IMEX_CHECK_FROM_ENVIRONMENT 2U

typedef struct imex_communicator_options {
  size_t struct_size;
  size_t slot_bytes;    /**< of rings between ranks, at most. Default 65536 */
  uint32_t lanes;       /**< independent streams of operations, 1 to 16. Default 1 */
  uint32_t timeout_ms;  /**< of each wait for a peer, and of creation; 0: none. Default 30000 */
  uint32_t determinism; /**< imex_determinism. Default IMEX_ORDER_INVARIANT */
  uint32_t check;       /**< 1: compare each call across ranks; 0: do not. Default by environment */
  uint32_t algorithm;   /**< imex_algorithm, where it can be done. Default IMEX_ALGORITHM_AUTO */
  uint32_t two_copies;  /**< 1: peers do not read private memory through the kernel. Default 0 */
  uint32_t locality;    /**< ranks of one number are near each other; set in all ranks or in none.
                             Default IMEX_LOCALITY_BY_TOPOLOGY */
  uint32_t reserved;
} imex_communicator_options;
#define IMEX_COMMUNICATOR_OPTIONS_INIT \
  {sizeof(imex_communicator_options),  \
   65536,                              \
   1,                                  \
   30000,                              \
   IMEX_ORDER_INVARIANT,               \
   IMEX_CHECK_FROM_ENVIRONMENT,        \
   IMEX_ALGORITHM_AUTO,                \
   0,                                  \
   IMEX_LOCALITY_BY_TOPOLOGY,          \
   0}

/** One rank's end of a group. */
typedef struct imex_communicator imex_communicator;

/** Collective. Errors: IMEX_INVALID_ARGUMENT (also: not the same in all ranks),
 * IMEX_DEADLINE_EXCEEDED (names the ranks that did not come), IMEX_NOT_FOUND,
 * IMEX_PERMISSION_DENIED (the peers' memory cannot be reached), IMEX_RESOURCE_EXHAUSTED. */
IMEX_API int imex_communicator_create(const imex_unique_id* id, uint32_t rank, uint32_t ranks,
                                      const imex_communicator_options* options,
                                      imex_communicator** out);
/** The same through the node daemon, for an id of imex_rendezvous_create_on(): memory that the
 * fabric withdraws ends the communicator with IMEX_REVOKED. Keeps the session open and uses one of
 * its scopes. Further errors: as imex_import_memory(). */
IMEX_API int imex_communicator_create_on(imex_session* session, const imex_unique_id* id,
                                         uint32_t rank, uint32_t ranks,
                                         const imex_communicator_options* options,
                                         imex_communicator** out);
IMEX_API void imex_communicator_end(imex_communicator* communicator);
IMEX_API uint32_t imex_communicator_rank(const imex_communicator* communicator);
IMEX_API uint32_t imex_communicator_size(const imex_communicator* communicator);
/** Grows by one with each imex_communicator_shrink(), split and grow. */
IMEX_API uint64_t imex_communicator_generation(const imex_communicator* communicator);

/** Every rank gets the reduction of `count` elements of every rank's `in`. */
IMEX_API int imex_all_reduce(imex_communicator* communicator, const void* in, void* out,
                             size_t count, imex_data_type type, imex_reduce_op op, uint32_t lane);
/** Rank r gets elements [r * count, (r + 1) * count) of the reduction of size * count elements. In
 * place: `out` is in + rank * count elements. */
IMEX_API int imex_reduce_scatter(imex_communicator* communicator, const void* in, void* out,
                                 size_t count, imex_data_type type, imex_reduce_op op,
                                 uint32_t lane);
/** Rank r's `in` becomes bytes [r * bytes, (r + 1) * bytes) of every `out`. In place: `in` is
 * out + rank * bytes. */
IMEX_API int imex_all_gather(imex_communicator* communicator, const void* in, void* out,
                             size_t bytes, uint32_t lane);
IMEX_API int imex_broadcast(imex_communicator* communicator, void* buffer, size_t bytes,
                            uint32_t root, uint32_t lane);
/** As imex_all_reduce(), for the root only; `out` of the others is not touched and may be NULL. */
IMEX_API int imex_reduce(imex_communicator* communicator, const void* in, void* out, size_t count,
                         imex_data_type type, imex_reduce_op op, uint32_t root, uint32_t lane);
/** Part r of `in` becomes part `rank` of rank r's `out`; parts of `bytes` each. Not in place. */
IMEX_API int imex_all_to_all(imex_communicator* communicator, const void* in, void* out,
                             size_t bytes, uint32_t lane);
/** What imex_all_to_all_v() sends to one rank and receives from it. */
typedef struct imex_part {
  const void* send;
  size_t send_bytes;
  void* receive;
  size_t receive_bytes; /**< exactly what that rank sends to this one */
} imex_part;
/** The same with own sizes and places; `parts` has one for each rank, the own one included. */
IMEX_API int imex_all_to_all_v(imex_communicator* communicator, const imex_part* parts,
                               uint32_t lane);
/** `bytes` to `peer`, which calls imex_receive() with as many. Not to itself. */
IMEX_API int imex_send(imex_communicator* communicator, const void* data, size_t bytes,
                       uint32_t peer, uint32_t lane);
IMEX_API int imex_receive(imex_communicator* communicator, void* data, size_t bytes, uint32_t peer,
                          uint32_t lane);
/** imex_send() to `to` and imex_receive() from `from` side by side, so that ranks in a cycle do not
 * wait for each other. The ranges do not overlap. */
IMEX_API int imex_send_receive(imex_communicator* communicator, const void* data, size_t bytes,
                               uint32_t to, void* into, size_t into_bytes, uint32_t from,
                               uint32_t lane);
/** What each rank wrote before is visible to all after. */
IMEX_API int imex_barrier(imex_communicator* communicator, uint32_t lane);

/** An operation that was started. Its buffers belong to it until it is done. */
typedef struct imex_request imex_request;
/* As the functions above, without waiting: a thread of the lane does the operation, after those
 * started before; a wait that comes first does it itself. At most 64 are started and not done
 * (IMEX_RESOURCE_EXHAUSTED); the functions above are refused on the lane meanwhile
 * (IMEX_FAILED_PRECONDITION). */
IMEX_API int imex_start_all_reduce(imex_communicator* communicator, const void* in, void* out,
                                   size_t count, imex_data_type type, imex_reduce_op op,
                                   uint32_t lane, imex_request** request);
IMEX_API int imex_start_reduce_scatter(imex_communicator* communicator, const void* in, void* out,
                                       size_t count, imex_data_type type, imex_reduce_op op,
                                       uint32_t lane, imex_request** request);
IMEX_API int imex_start_all_gather(imex_communicator* communicator, const void* in, void* out,
                                   size_t bytes, uint32_t lane, imex_request** request);
IMEX_API int imex_start_broadcast(imex_communicator* communicator, void* buffer, size_t bytes,
                                  uint32_t root, uint32_t lane, imex_request** request);
IMEX_API int imex_start_reduce(imex_communicator* communicator, const void* in, void* out,
                               size_t count, imex_data_type type, imex_reduce_op op, uint32_t root,
                               uint32_t lane, imex_request** request);
IMEX_API int imex_start_all_to_all(imex_communicator* communicator, const void* in, void* out,
                                   size_t bytes, uint32_t lane, imex_request** request);
IMEX_API int imex_start_send(imex_communicator* communicator, const void* data, size_t bytes,
                             uint32_t peer, uint32_t lane, imex_request** request);
IMEX_API int imex_start_receive(imex_communicator* communicator, void* data, size_t bytes,
                                uint32_t peer, uint32_t lane, imex_request** request);
IMEX_API int imex_start_barrier(imex_communicator* communicator, uint32_t lane,
                                imex_request** request);
/** 1: done, well or not; never blocks on a peer. */
IMEX_API int imex_request_is_done(const imex_request* request);
/** Its result. Any number of times. */
IMEX_API int imex_request_wait(imex_request* request);
/** Does not end the operation. Before the end of the communicator. */
IMEX_API void imex_request_end(imex_request* request);

/** Collective: zeroed memory of the same size in every rank, mapped by all, for as long as the
 * communicator lives. Not beside an operation. Errors: IMEX_INVALID_ARGUMENT;
 * IMEX_FAILED_PRECONDITION; IMEX_RESOURCE_EXHAUSTED in all ranks when one has no such memory, which
 * leaves the communicator as it was. */
IMEX_API int imex_communicator_allocate(imex_communicator* communicator, size_t bytes, void** out);
/** The same on memory as `options` say (NULL: the defaults), which are the same in all ranks.
 * Errors: the same. */
IMEX_API int imex_communicator_allocate_with(imex_communicator* communicator, size_t bytes,
                                             const struct imex_allocation_options* options,
                                             void** out);
/** Where `bytes` at `buffer`, within memory from imex_communicator_allocate(), lie in `peer`. */
IMEX_API int imex_communicator_peer_memory(const imex_communicator* communicator,
                                           const void* buffer, size_t bytes, uint32_t peer,
                                           void** out);

/** Writes `bytes` to where `target`, an address in memory from imex_communicator_allocate() here,
 * lies in `peer`'s memory, which sees them after the next imex_put_signal() or imex_barrier(). */
IMEX_API int imex_put(imex_communicator* communicator, const void* data, void* target, size_t bytes,
                      uint32_t peer, uint32_t lane);
/** The same, and then adds one to the count of a signal (0 to 7) from this rank to `peer`. */
IMEX_API int imex_put_signal(imex_communicator* communicator, const void* data, void* target,
                             size_t bytes, uint32_t peer, uint32_t signal, uint32_t lane);
/** Returns when `peer` has put at least `count` times, since the communicator began, with this
 * signal on this lane; what it put is visible then. */
IMEX_API int imex_wait_signal(imex_communicator* communicator, uint32_t peer, uint64_t count,
                              uint32_t signal, uint32_t lane);

/** Ends all operations of all ranks, now and later, with IMEX_ABORTED. Any thread. */
IMEX_API void imex_communicator_abort(imex_communicator* communicator);
/** Why the communicator is of no more use, with imex_last_error(); IMEX_OK while it is. */
IMEX_API int imex_communicator_error(const imex_communicator* communicator);
/** Collective among the survivors: one without the ranks `dead` (in this one's numbers), in the
 * same order, under the next generation. All survivors name the same ranks. With none dead: one
 * more of all. At most 8 times in all, whether it succeeded or not. */
IMEX_API int imex_communicator_shrink(imex_communicator* communicator, const uint32_t* dead,
                                      size_t dead_count, imex_communicator** out);
/** A color that is none: the rank will have no part in what imex_communicator_split() makes. */
#define IMEX_NO_COLOR 0xffffffffU
/** Collective on all ranks: one for those of each color, ordered by `key`, then by rank, under the
 * next generation. NULL for a rank without a color. */
IMEX_API int imex_communicator_split(imex_communicator* communicator, uint32_t color, int64_t key,
                                     imex_communicator** out);
/** Where more ranks meet these: one of them makes it and gives its id to all, old and new. */
IMEX_API int imex_communicator_rendezvous(const imex_communicator* communicator,
                                          imex_rendezvous** out);
/** Collective among these, which keep their numbers, and the newcomers, which call
 * imex_communicator_create() with the same id: one of `ranks` ranks, under the next generation. */
IMEX_API int imex_communicator_grow(imex_communicator* communicator, const imex_unique_id* id,
                                    uint32_t ranks, imex_communicator** out);
/** How many ranks are known to be lost; writes the first `capacity` of them. */
IMEX_API size_t imex_communicator_lost_ranks(const imex_communicator* communicator, uint32_t* ranks,
                                             size_t capacity);

typedef struct imex_communicator_counters {
  size_t struct_size;    /**< sizeof(imex_communicator_counters), set by the caller */
  uint64_t operations;   /**< that have ended well */
  uint64_t bytes;        /**< of this rank's vectors */
  uint64_t window_bytes; /**< shared memory of this rank, but for what it has allocated */
} imex_communicator_counters;
IMEX_API int imex_communicator_count(const imex_communicator* communicator,
                                     imex_communicator_counters* out);

#ifdef __cplusplus
}
#endif

#endif
