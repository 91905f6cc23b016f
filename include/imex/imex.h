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

#ifdef __cplusplus
}
#endif

#include <imex/communicator.h>

#endif
