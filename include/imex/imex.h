/**
 * Memory that processes share, across the nodes of an IMEX domain: the C API of libimex.
 *
 *     imex_session_options options = IMEX_SESSION_OPTIONS_INIT;
 *     options.channel = "/run/imex/n0/channels/channel0";
 *     imex_session* session;
 *     if (imex_session_open(&options, &session) != IMEX_OK) { puts(imex_last_error()); return 1; }
 *     imex_allocation* memory;
 *     imex_allocate(1 << 21, NULL, &memory);
 *     imex_export* exported;
 *     imex_export_memory(session, memory, NULL, &exported);
 *     imex_handle handle = imex_export_handle(exported);    // send these 64 bytes to a peer
 *
 * Rules that hold throughout:
 *  - Functions that can fail return an imex_error_code; IMEX_OK is 0. Outputs are written on
 * success only. The text of a failure is imex_last_error() of the same thread.
 *  - Objects are opaque and end with their own function, which takes NULL; in whatever order: what
 *    an object needs stays alive behind it.
 *  - All functions may be called by any thread, also on the same object, except that ending an
 * object must be the last use of it.
 *  - Option structures begin with their own size: start from the _INIT value, so that a program
 *    compiled today runs with a library that knows more options. NULL means all defaults.
 *  - After fork() the child must not use a session of the parent (IMEX_FAILED_PRECONDITION).
 */
#ifndef IMEX_IMEX_H
#define IMEX_IMEX_H

#include <imex/export.h>
#include <imex/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

/** The numbers never change and are never reused; C++ has them as imex::Errc. */
typedef enum imex_error_code {
  IMEX_OK = 0,
  IMEX_INVALID_ARGUMENT = 1,    /**< wrong whatever the state of the system; mend the call */
  IMEX_NOT_FOUND = 2,           /**< no such object: never there, or ended */
  IMEX_ALREADY_EXISTS = 3,      /**< the name or number is taken */
  IMEX_PERMISSION_DENIED = 4,   /**< not allowed; also every forged or foreign handle */
  IMEX_RESOURCE_EXHAUSTED = 5,  /**< a limit: free something and try again */
  IMEX_FAILED_PRECONDITION = 6, /**< the system is in the wrong state; trying again does not help */
  IMEX_ABORTED = 7,             /**< the user, or a peer's user, aborted */
  IMEX_DEADLINE_EXCEEDED = 8,   /**< the deadline passed; the operation may still take effect */
  IMEX_UNAVAILABLE = 9,         /**< cannot be reached now; trying again later may help */
  IMEX_PEER_LOST = 10,          /**< a process or node is gone; imex_last_error_rank() names it */
  IMEX_REVOKED = 11,            /**< the fabric withdrew the memory */
  IMEX_STALE = 12,              /**< an earlier generation, or an ended daemon instance */
  IMEX_DATA_LOSS = 13,          /**< damaged bytes */
  IMEX_UNSUPPORTED = 14,        /**< this machine, kernel or build cannot do it */
  IMEX_VERSION_MISMATCH = 15,   /**< the two sides share no protocol version */
  IMEX_INTERNAL = 16            /**< a bug in Imex, or a system call that cannot fail did */
} imex_error_code;

/** Rank value that means "no particular rank". */
#define IMEX_NO_RANK 0xffffffffU

/** What the last failed call of this thread found, in one paragraph with the next step to take.
 * Never NULL. Valid until the next failed call of this thread. */
IMEX_API const char* imex_last_error(void);
/** With IMEX_PEER_LOST, IMEX_ABORTED and IMEX_REVOKED: who. Else IMEX_NO_RANK. */
IMEX_API uint32_t imex_last_error_rank(void);
/** The code in words as they stand in JSON and logs: "peer_lost". Static storage; never NULL. */
IMEX_API const char* imex_error_name(int code);
/** Release of the library: "0.1.0". Static storage. */
IMEX_API const char* imex_version(void);

/* ---- memory ---- */

typedef enum imex_pages {
  IMEX_PAGES_AUTO = 0, /**< huge pages from the pool, else transparent ones, else small */
  IMEX_PAGES_HUGE = 1, /**< huge pages from the pool, or an error */
  IMEX_PAGES_SMALL = 2 /**< base pages */
} imex_pages;

typedef struct imex_allocation_options {
  size_t struct_size;
  size_t alignment;  /**< of the data; a power of two, at most 1 GiB. Default 4096 */
  uint32_t pages;    /**< imex_pages. Default IMEX_PAGES_AUTO */
  uint32_t prefault; /**< not 0: touch every page now, on this thread's NUMA node. Default 1 */
} imex_allocation_options;
#define IMEX_ALLOCATION_OPTIONS_INIT {sizeof(imex_allocation_options), 4096, IMEX_PAGES_AUTO, 1}

/** Zeroed memory that can be shared. It stays alive while any importer maps it. */
typedef struct imex_allocation imex_allocation;

/** `size_bytes` > 0. Errors: IMEX_INVALID_ARGUMENT; IMEX_RESOURCE_EXHAUSTED with the bytes that
 * were free. */
IMEX_API int imex_allocate(size_t size_bytes, const imex_allocation_options* options,
                           imex_allocation** out);
/** Exports made from it keep the memory; data() must not be used any more. */
IMEX_API void imex_free(imex_allocation* allocation);
IMEX_API void* imex_allocation_data(const imex_allocation* allocation);
IMEX_API size_t imex_allocation_size(const imex_allocation* allocation);
/** Bytes per page that back the memory: 4096, 2 MiB, ... */
IMEX_API size_t imex_allocation_page_bytes(const imex_allocation* allocation);

/** Opaque, unforgeable name of one export. Treat it as a secret: together with access to the
 * channel it grants access to the memory. */
typedef struct imex_handle {
  unsigned char bytes[64];
} imex_handle;

/** Writes 128 lower-case hexadecimal digits and a NUL. */
IMEX_API void imex_handle_to_hex(const imex_handle* handle, char out[129]);
/** Errors: IMEX_INVALID_ARGUMENT unless exactly 128 hexadecimal digits. */
IMEX_API int imex_handle_from_hex(const char* text, imex_handle* out);

/* ---- sessions ---- */

/** Connection to the node daemon on one channel, acting for one GPU. Has one control thread, which
 * is blocked and costs no CPU. */
typedef struct imex_session imex_session;

#define IMEX_ANY_GPU 0xffffffffU

typedef struct imex_session_options {
  size_t struct_size;
  const char* channel; /**< path of the channel's socket, .../channels/channelN. No default */
  uint64_t gpu_uid;    /**< the GPU to act for; 0 (default): by index */
  uint32_t gpu_index;  /**< default IMEX_ANY_GPU: any that the channel allows */
  uint32_t timeout_ms; /**< of opening and of each later request. Default 5000 */
} imex_session_options;
#define IMEX_SESSION_OPTIONS_INIT {sizeof(imex_session_options), NULL, 0, IMEX_ANY_GPU, 5000}

/** Errors: IMEX_NOT_FOUND (no such socket), IMEX_PERMISSION_DENIED, IMEX_UNAVAILABLE (no daemon
 *  answers), IMEX_VERSION_MISMATCH, IMEX_RESOURCE_EXHAUSTED (session limit). */
IMEX_API int imex_session_open(const imex_session_options* options, imex_session** out);
/** The session itself ends with the last of its exports and imports. */
IMEX_API void imex_session_close(imex_session* session);
IMEX_API uint32_t imex_session_channel(const imex_session* session);
IMEX_API uint16_t imex_session_node_id(const imex_session* session);
IMEX_API uint32_t imex_session_gpu_index(const imex_session* session);
IMEX_API uint64_t imex_session_gpu_uid(const imex_session* session);

/* ---- abort scopes ---- */

/** A set of imports and exports whose loss ends the same waits: one per communicator. A value;
 * copies name the same scope. All zero: none. Valid while the session lives. */
typedef struct imex_scope {
  void* cell;
  uint32_t index;
  uint32_t reserved;
} imex_scope;

/** The scope of imports that name none. */
IMEX_API imex_scope imex_default_scope(const imex_session* session);
/** Errors: IMEX_RESOURCE_EXHAUSTED after 62 that live at once. */
IMEX_API int imex_scope_create(imex_session* session, imex_scope* out);
/** No import or export may use it any more. */
IMEX_API void imex_scope_release(imex_session* session, imex_scope scope);
/** Ends all waits of the scope in this process with IMEX_ABORTED. */
IMEX_API void imex_scope_abort(imex_scope scope, uint32_t by_rank);
/** What waits of the scope return since it was tripped, with imex_last_error(); else IMEX_OK. */
IMEX_API int imex_scope_error(imex_scope scope);

/* ---- exports and imports ---- */

typedef struct imex_export_options {
  size_t struct_size;
  imex_scope scope; /**< tripped when an importer is lost. Default none: an event only */
  uint32_t rank;    /**< told to importers when this process is lost. Default IMEX_NO_RANK */
  uint32_t reserved;
} imex_export_options;
#define IMEX_EXPORT_OPTIONS_INIT {sizeof(imex_export_options), {NULL, 0, 0}, IMEX_NO_RANK, 0}

/** One exported allocation. */
typedef struct imex_export imex_export;

/** Makes the allocation known to the domain; one request to the daemon. Errors:
 *  IMEX_RESOURCE_EXHAUSTED, IMEX_UNAVAILABLE (daemon away), IMEX_DEADLINE_EXCEEDED. */
IMEX_API int imex_export_memory(imex_session* session, imex_allocation* allocation,
                                const imex_export_options* options, imex_export** out);
/** Nobody can import it any more; who has it mapped keeps the memory. */
IMEX_API void imex_export_end(imex_export* exported);
IMEX_API imex_handle imex_export_handle(const imex_export* exported);
IMEX_API uint64_t imex_export_id(const imex_export* exported);
IMEX_API uint32_t imex_export_generation(const imex_export* exported);
/** After IMEX_EVENT_EXPORT_QUIESCENT: moves the bytes to fresh pages at the same address and
 * exports them under the next generation, with a new handle. Errors: IMEX_FAILED_PRECONDITION
 * before, and while another export of the allocation is live or being withdrawn. */
IMEX_API int imex_re_export(imex_session* session, imex_export* exported);

/** What the loss of an exporter does to one import; the mapping stays readable in each case. Memory
 * that is revoked goes, and is always told as IMEX_EVENT_IMPORT_REVOKED; only FAIL_FAST ends waits
 * then as well. */
typedef enum imex_loss_policy {
  IMEX_ON_LOSS_FAIL_FAST = 0, /**< trips the scope and tells IMEX_EVENT_EXPORTER_LOST */
  IMEX_ON_LOSS_NOTIFY = 1,    /**< tells IMEX_EVENT_EXPORTER_LOST; waits go on */
  IMEX_ON_LOSS_KEEP = 2       /**< neither: data that is complete and only read */
} imex_loss_policy;

typedef struct imex_import_options {
  size_t struct_size;
  imex_scope scope; /**< tripped when the exporter is lost or revoked. Default: the default scope
                         with FAIL_FAST, else none; set beside another policy: an error */
  uint32_t rank;    /**< told to the exporter when this process is lost. Default IMEX_NO_RANK */
  uint32_t on_loss; /**< imex_loss_policy. Default IMEX_ON_LOSS_FAIL_FAST */
} imex_import_options;
#define IMEX_IMPORT_OPTIONS_INIT {sizeof(imex_import_options), {NULL, 0, 0}, IMEX_NO_RANK, 0}

/** A peer's memory, mapped here, readable and writable. */
typedef struct imex_import imex_import;

/** Errors: IMEX_PERMISSION_DENIED (forged, other channel, other partition), IMEX_STALE,
 * IMEX_NOT_FOUND (export ended), IMEX_UNSUPPORTED (other machine without NVLink), IMEX_DATA_LOSS.
 */
IMEX_API int imex_import_memory(imex_session* session, const imex_handle* handle,
                                const imex_import_options* options, imex_import** out);
/** Unmaps, once the operations that were begun have ended. */
IMEX_API void imex_import_end(imex_import* imported);
IMEX_API void* imex_import_data(const imex_import* imported);
IMEX_API size_t imex_import_size(const imex_import* imported);
IMEX_API uint64_t imex_import_id(const imex_import* imported);
IMEX_API uint32_t imex_import_exporter_rank(const imex_import* imported);
IMEX_API uint32_t imex_import_generation(const imex_import* imported);

/** While one runs, a revocation waits (up to 50 ms) before it takes the pages away. */
typedef struct imex_operation imex_operation;
/** Errors: IMEX_REVOKED. */
IMEX_API int imex_operation_begin(imex_import* imported, imex_operation** out);
IMEX_API void imex_operation_end(imex_operation* operation);

/* ---- signals ---- */

/** A one-way event counter in shared memory: 64 bytes, 64-byte aligned, all zero when fresh. Place
 * it in an allocation; touch it with the functions below only. */
typedef struct imex_signal {
#ifdef __cplusplus
  alignas(64) uint64_t value;
#else
  _Alignas(64) uint64_t value;
#endif
  uint32_t waiters;
  unsigned char reserved[52];
} imex_signal;

/** CLOCK_MONOTONIC nanoseconds at which a wait gives up; IMEX_NO_DEADLINE: never. */
#define IMEX_NO_DEADLINE UINT64_MAX
/** The deadline `milliseconds` from now. */
IMEX_API uint64_t imex_deadline_after_ms(uint64_t milliseconds);

typedef struct imex_wait_options {
  size_t struct_size;
  imex_scope scope;      /**< ends the wait when tripped. Default none */
  uint64_t deadline_ns;  /**< Default IMEX_NO_DEADLINE */
  uint32_t spin_ns;      /**< tight loads first. Default 2000 */
  uint32_t pause_ns;     /**< then loads with pauses. Default 20000 */
  uint32_t yield_rounds; /**< then yields to other threads. Default 50 */
  uint32_t sleep;        /**< not 0: then sleeps in the kernel; 0: keeps yielding. Default 1 */
} imex_wait_options;
#define IMEX_WAIT_OPTIONS_INIT \
  {sizeof(imex_wait_options), {NULL, 0, 0}, IMEX_NO_DEADLINE, 2000, 20000, 50, 1}

/** Adds `count` (>= 1). Writes made before are visible after the wait that observes it. Never
 * blocks. */
IMEX_API void imex_signal_notify(imex_signal* signal, uint32_t count);
/** The producer is gone: every wait not yet met, now or later, ends with IMEX_PEER_LOST. */
IMEX_API void imex_signal_abandon(imex_signal* signal);
IMEX_API uint64_t imex_signal_count(const imex_signal* signal);
/** Blocks until `target` was counted. `seen`, if not NULL, gets the count last read, also on
 * errors: IMEX_DEADLINE_EXCEEDED; IMEX_PEER_LOST (abandoned); what the scope was tripped with. A
 * count that was reached wins over all of them. */
IMEX_API int imex_signal_wait(imex_signal* signal, uint64_t target,
                              const imex_wait_options* options, uint64_t* seen);

/* ---- events ---- */

typedef enum imex_event_kind {
  IMEX_EVENT_EXPORTER_LOST = 1,    /**< whose memory was imported is gone; the mapping stays */
  IMEX_EVENT_IMPORTER_LOST = 2,    /**< a process that had imported from here is gone */
  IMEX_EVENT_IMPORT_REVOKED = 3,   /**< memory was withdrawn and is not accessible here any more */
  IMEX_EVENT_EXPORT_REVOKED = 4,   /**< an export from here is being withdrawn from all importers */
  IMEX_EVENT_EXPORT_QUIESCENT = 5, /**< ... and is now: imex_re_export() may follow */
  IMEX_EVENT_DAEMON_LOST = 6,      /**< it did not come back within its lease: handles are dead */
  IMEX_EVENT_DAEMON_RESUMED = 7,   /**< it was away and is back; nothing was lost */
  IMEX_EVENT_CHANNEL_RELEASED =
      8 /**< the workload's grant ended: requests fail with IMEX_REVOKED */
} imex_event_kind;

typedef struct imex_event {
  size_t struct_size;        /**< sizeof(imex_event), set by the caller */
  uint64_t id;               /**< of the export or import concerned */
  uint32_t kind;             /**< imex_event_kind */
  uint32_t rank;             /**< of the peer concerned, or IMEX_NO_RANK */
  uint32_t reason;           /**< imex_error_code; IMEX_OK: it ended in order */
  uint32_t silent_importers; /**< EXPORT_QUIESCENT: importers that did not acknowledge */
} imex_event;

/** Becomes readable when imex_next_event() has something. Owned by the session. */
IMEX_API int imex_event_fd(const imex_session* session);
/** The oldest event not yet taken. Errors: IMEX_NOT_FOUND when there is none. The queue holds 1024;
 *  then the oldest is dropped and counted. */
IMEX_API int imex_next_event(imex_session* session, imex_event* out);
IMEX_API uint64_t imex_events_dropped(const imex_session* session);
/** Called on the control thread for each event, before it is queued. Must not block, must not call
 *  back into the session. Replaces the former one, which does not run any more on return; NULL:
 * none.
 */
typedef void (*imex_event_callback)(const imex_event* event, void* user);
IMEX_API void imex_on_event(imex_session* session, imex_event_callback callback, void* user);

/** Installs a SIGSEGV handler that explains an access to revoked memory on standard error before
 * the former handler runs. Opt-in, process-wide, once. */
IMEX_API int imex_report_revoked_access(void);

/* ---- communicators: ranks that swap data through memory which all of them have mapped ----
 *
 * All ranks call the same operations in the same order, with the same sizes, types and options.
 * Buffers: any pointer of any alignment; input and output are the same range or do not overlap.
 * Memory from imex_communicator_allocate() is faster; a call passes such memory in every rank or in
 * none. A lane carries one operation at a time: a second one meanwhile returns
 * IMEX_FAILED_PRECONDITION. After IMEX_PEER_LOST, IMEX_ABORTED or IMEX_DEADLINE_EXCEEDED a
 * communicator is of no more use than for imex_communicator_shrink() and its end.
 */

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
  IMEX_ALGORITHM_AUTO = 0,       /**< by the measured costs of this machine */
  IMEX_ALGORITHM_PACKET = 1,     /**< one-shot, data and readiness in one cache line */
  IMEX_ALGORITHM_MAILBOX = 2,    /**< two-shot, answered in the line that asked */
  IMEX_ALGORITHM_RING = 3,       /**< one-shot through a ring of slots */
  IMEX_ALGORITHM_REGISTERED = 4, /**< two-shot in place; allocated buffers only */
  IMEX_ALGORITHM_SINGLE_COPY = 5 /**< two-shot; reads private memory through the kernel */
} imex_algorithm;

/** Value of imex_communicator_options.check: as the environment variable IMEX_CHECK says. */
#define IMEX_CHECK_FROM_ENVIRONMENT 2U

typedef struct imex_communicator_options {
  size_t struct_size;
  size_t slot_bytes;    /**< of rings between ranks, at most. Default 65536 */
  uint32_t lanes;       /**< independent streams of operations, 1 to 16. Default 1 */
  uint32_t timeout_ms;  /**< of each wait for a peer, and of creation; 0: none. Default 30000 */
  uint32_t determinism; /**< imex_determinism. Default IMEX_ORDER_INVARIANT */
  uint32_t check;       /**< 1: compare each call across ranks; 0: do not. Default by environment */
  uint32_t algorithm;   /**< imex_algorithm, where it can be done. Default IMEX_ALGORITHM_AUTO */
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
   0}

/** One rank's end of a group. */
typedef struct imex_communicator imex_communicator;

/** Collective. Errors: IMEX_INVALID_ARGUMENT (also: not the same in all ranks),
 * IMEX_DEADLINE_EXCEEDED (names the ranks that did not come), IMEX_NOT_FOUND,
 * IMEX_PERMISSION_DENIED (the peers' memory cannot be reached), IMEX_RESOURCE_EXHAUSTED. */
IMEX_API int imex_communicator_create(const imex_unique_id* id, uint32_t rank, uint32_t ranks,
                                      const imex_communicator_options* options,
                                      imex_communicator** out);
IMEX_API void imex_communicator_end(imex_communicator* communicator);
IMEX_API uint32_t imex_communicator_rank(const imex_communicator* communicator);
IMEX_API uint32_t imex_communicator_size(const imex_communicator* communicator);
/** Grows by one with each imex_communicator_shrink(). */
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
/** What each rank wrote before is visible to all after. */
IMEX_API int imex_barrier(imex_communicator* communicator, uint32_t lane);

/** Collective: zeroed memory of the same size in every rank, mapped by all, for as long as the
 * communicator lives. Errors: IMEX_RESOURCE_EXHAUSTED. */
IMEX_API int imex_communicator_allocate(imex_communicator* communicator, size_t bytes, void** out);
/** Where `bytes` at `buffer`, within memory from imex_communicator_allocate(), lie in `peer`. */
IMEX_API int imex_communicator_peer_memory(const imex_communicator* communicator,
                                           const void* buffer, size_t bytes, uint32_t peer,
                                           void** out);

/** Ends all operations of all ranks, now and later, with IMEX_ABORTED. Any thread. */
IMEX_API void imex_communicator_abort(imex_communicator* communicator);
/** Why the communicator is of no more use, with imex_last_error(); IMEX_OK while it is. */
IMEX_API int imex_communicator_error(const imex_communicator* communicator);
/** Collective among the survivors: one without the ranks `dead` (in this one's numbers), in the
 * same order, under the next generation. All survivors name the same ranks. */
IMEX_API int imex_communicator_shrink(imex_communicator* communicator, const uint32_t* dead,
                                      size_t dead_count, imex_communicator** out);
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
