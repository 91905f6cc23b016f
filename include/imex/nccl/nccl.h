/**
 * The C interface of NCCL, with its numbers, over Imex on host memory: for programs that are
 * written against NCCL, on machines without any GPU. Compile with -I .../include/imex/nccl, link
 * with -lnccl; or give a program that was built with NVIDIA's header the library alone.
 *
 * What differs from NCCL on GPUs:
 *  - Buffers are host memory. Memory of a CUDA device is refused with ncclInvalidArgument.
 *  - A stream means nothing, whether null or not: data is complete when the call returns, within a
 *    group when ncclGroupEnd() returns, and on a communicator with blocking = 0 when
 *    ncclCommGetAsyncError() no longer says ncclInProgress.
 *  - A wait ends after IMEX_NCCL_TIMEOUT_MS (environment; 600000 by default, 0: never) with
 *    ncclTimeout.
 *  - ncclCommAbort() ends the operations of all ranks, whose calls then return ncclRemoteError.
 *
 * ncclGetVersion() reports the level whose functions are all here: 2.27. Later functions that also
 * work are at the end. Guide: docs/guide/04-nccl-programs.md.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
/** How releases are numbered in one integer; up to 2.8 with fewer digits. */
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#if defined(__GNUC__)
#define IMEX_NCCL_API __attribute__((visibility("default")))
#else
#define IMEX_NCCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** As in the headers of CUDA, which may be included as well. */
typedef struct CUstream_st* cudaStream_t;

/** One rank's end of a group of ranks. */
typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL
/** Memory made known to all ranks. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

#define NCCL_UNIQUE_ID_BYTES 128
/** What names a group before its ranks have met. Treat it as a secret. */
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1, /**< never returned here */
  ncclSystemError = 2,        /**< memory, descriptors, permissions; the other ranks not found */
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5, /**< not now, or not here */
  ncclRemoteError = 6,  /**< a rank is gone, or has aborted */
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/** Floats are summed in rank order, in f32 (f64 for f64), and rounded once. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /**< from here on: made by ncclRedOpCreatePreMulSum() */
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclScalarDevice = 0,       /**< read when the operation runs; host memory here */
  ncclScalarHostImmediate = 1 /**< read at once */
} ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /**< end the operations of the parent first */

/** Start from NCCL_CONFIG_INITIALIZER. Read by its `size`: other releases have more or fewer
 * members. Only `blocking` means something here. */
typedef struct ncclConfig_v22700 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking; /**< 0: calls return ncclInProgress; poll ncclCommGetAsyncError(). Default 1 */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                \
  {sizeof(ncclConfig_t),  0xcafebeefU,           NCCL_VERSION_CODE,     NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT}

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER \
  {sizeof(ncclSimInfo_t), 0x74685283U, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT}

/* ---- library ---- */

IMEX_NCCL_API ncclResult_t ncclGetVersion(int* version);
/** Static storage; never null. */
IMEX_NCCL_API const char* ncclGetErrorString(ncclResult_t result);
/** What the last failed call of this thread found; with a communicator, why that is of no more use,
 * if it is not. Valid until this thread asks again. */
IMEX_NCCL_API const char* ncclGetLastError(ncclComm_t comm);
/** Does nothing. */
IMEX_NCCL_API void ncclResetDebugInit(void);

/* ---- communicators ---- */

/** Serves one communicator. The calling process must live until all ranks have created it: it owns
 * the memory in which they meet. Keeps the 256 latest ids that none of its own ranks has used. */
IMEX_NCCL_API ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id);
IMEX_NCCL_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId comm_id,
                                            int rank);
IMEX_NCCL_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId comm_id,
                                                  int rank, ncclConfig_t* config);
/** The ranks meet at the first of the ids. */
IMEX_NCCL_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* new_comm, int ranks, int rank,
                                                    int id_count, ncclUniqueId* comm_ids,
                                                    ncclConfig_t* config);
/** All ranks in this thread, which then calls operations in groups. `devices` is only remembered.
 */
IMEX_NCCL_API ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ranks, const int* devices);
IMEX_NCCL_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                                         ncclConfig_t* config);
/** Called by those that stay; also after ranks were lost. */
IMEX_NCCL_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count,
                                          ncclComm_t* new_comm, ncclConfig_t* config, int flags);
/** No operation may follow. */
IMEX_NCCL_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
IMEX_NCCL_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
/** By any thread, also while others are inside calls on `comm`: those end first. */
IMEX_NCCL_API ncclResult_t ncclCommAbort(ncclComm_t comm);
IMEX_NCCL_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
IMEX_NCCL_API ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
IMEX_NCCL_API ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
/** The entry of `devices`; else 0: there is no device. */
IMEX_NCCL_API ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device);

/* ---- memory ---- */

/** Page-aligned host memory. */
IMEX_NCCL_API ncclResult_t ncclMemAlloc(void** ptr, size_t size);
IMEX_NCCL_API ncclResult_t ncclMemFree(void* ptr);
/** Host memory needs no registration: gives a handle, makes nothing faster. */
IMEX_NCCL_API ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t size,
                                            void** handle);
IMEX_NCCL_API ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle);
IMEX_NCCL_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size,
                                                  ncclWindow_t* win, int flags);
IMEX_NCCL_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/* ---- operations ---- */

/** Multiplies each rank's input by a scalar of its type, rounds, then sums. For `comm` and
 * `datatype` only. */
IMEX_NCCL_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                    ncclDataType_t datatype,
                                                    ncclScalarResidence_t residence,
                                                    ncclComm_t comm);
IMEX_NCCL_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

IMEX_NCCL_API ncclResult_t ncclAllReduce(const void* in, void* out, size_t count,
                                         ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                         cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclReduce(const void* in, void* out, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, int root,
                                      ncclComm_t comm, cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclBroadcast(const void* in, void* out, size_t count,
                                         ncclDataType_t datatype, int root, ncclComm_t comm,
                                         cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t datatype, int root,
                                     ncclComm_t comm, cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count,
                                             ncclDataType_t datatype, ncclRedOp_t op,
                                             ncclComm_t comm, cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclAllGather(const void* in, void* out, size_t count,
                                         ncclDataType_t datatype, ncclComm_t comm,
                                         cudaStream_t stream);
/** Between two ranks messages arrive in order, each as long as the receiver says; a message of no
 * elements is one too. */
IMEX_NCCL_API ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t datatype, int peer,
                                    ncclComm_t comm, cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t datatype, int peer,
                                    ncclComm_t comm, cudaStream_t stream);

/** Calls of this thread up to the outermost ncclGroupEnd() are checked at once and run there: those
 * of different communicators side by side; of one communicator the collectives in order, then all
 * sends and receives together. At most 65536 calls. */
IMEX_NCCL_API ncclResult_t ncclGroupStart(void);
IMEX_NCCL_API ncclResult_t ncclGroupEnd(void);
/** Ends a group without running it. The time is not estimated: NCCL_UNDEF_FLOAT. */
IMEX_NCCL_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info);

/* ---- of later releases ---- */

/** Not in place. */
IMEX_NCCL_API ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count,
                                        ncclDataType_t datatype, ncclComm_t comm,
                                        cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclGather(const void* in, void* out, size_t count,
                                      ncclDataType_t datatype, int root, ncclComm_t comm,
                                      cudaStream_t stream);
IMEX_NCCL_API ncclResult_t ncclScatter(const void* in, void* out, size_t count,
                                       ncclDataType_t datatype, int root, ncclComm_t comm,
                                       cudaStream_t stream);
/** Ends the operations of all ranks; `comm` can then be shrunk or destroyed. */
IMEX_NCCL_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
/** Where more ranks will meet those of `comm`: called by one of these. */
IMEX_NCCL_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* unique_id);
/** By the ranks of `comm`, which keep their numbers, with rank -1, the one that made the id passing
 * it; and by those that join, with `comm` null, the id and their rank. */
IMEX_NCCL_API ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* unique_id,
                                        int rank, ncclComm_t* new_comm, ncclConfig_t* config);
IMEX_NCCL_API ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** out);

/* ---- the same under the names that profilers call ---- */

#if defined(__GNUC__)
#define IMEX_NCCL_PROFILED(name) IMEX_NCCL_API __typeof__(name) p##name
IMEX_NCCL_PROFILED(ncclGetVersion);
IMEX_NCCL_PROFILED(ncclGetErrorString);
IMEX_NCCL_PROFILED(ncclGetLastError);
IMEX_NCCL_PROFILED(ncclResetDebugInit);
IMEX_NCCL_PROFILED(ncclGetUniqueId);
IMEX_NCCL_PROFILED(ncclCommInitRank);
IMEX_NCCL_PROFILED(ncclCommInitRankConfig);
IMEX_NCCL_PROFILED(ncclCommInitRankScalable);
IMEX_NCCL_PROFILED(ncclCommInitAll);
IMEX_NCCL_PROFILED(ncclCommSplit);
IMEX_NCCL_PROFILED(ncclCommShrink);
IMEX_NCCL_PROFILED(ncclCommFinalize);
IMEX_NCCL_PROFILED(ncclCommDestroy);
IMEX_NCCL_PROFILED(ncclCommAbort);
IMEX_NCCL_PROFILED(ncclCommGetAsyncError);
IMEX_NCCL_PROFILED(ncclCommCount);
IMEX_NCCL_PROFILED(ncclCommUserRank);
IMEX_NCCL_PROFILED(ncclCommCuDevice);
IMEX_NCCL_PROFILED(ncclMemAlloc);
IMEX_NCCL_PROFILED(ncclMemFree);
IMEX_NCCL_PROFILED(ncclCommRegister);
IMEX_NCCL_PROFILED(ncclCommDeregister);
IMEX_NCCL_PROFILED(ncclCommWindowRegister);
IMEX_NCCL_PROFILED(ncclCommWindowDeregister);
IMEX_NCCL_PROFILED(ncclRedOpCreatePreMulSum);
IMEX_NCCL_PROFILED(ncclRedOpDestroy);
IMEX_NCCL_PROFILED(ncclAllReduce);
IMEX_NCCL_PROFILED(ncclReduce);
IMEX_NCCL_PROFILED(ncclBroadcast);
IMEX_NCCL_PROFILED(ncclBcast);
IMEX_NCCL_PROFILED(ncclReduceScatter);
IMEX_NCCL_PROFILED(ncclAllGather);
IMEX_NCCL_PROFILED(ncclSend);
IMEX_NCCL_PROFILED(ncclRecv);
IMEX_NCCL_PROFILED(ncclGroupStart);
IMEX_NCCL_PROFILED(ncclGroupEnd);
IMEX_NCCL_PROFILED(ncclGroupSimulateEnd);
IMEX_NCCL_PROFILED(ncclAlltoAll);
IMEX_NCCL_PROFILED(ncclGather);
IMEX_NCCL_PROFILED(ncclScatter);
IMEX_NCCL_PROFILED(ncclCommRevoke);
IMEX_NCCL_PROFILED(ncclCommGetUniqueId);
IMEX_NCCL_PROFILED(ncclCommGrow);
IMEX_NCCL_PROFILED(ncclWinGetUserPtr);
#endif

#ifdef __cplusplus
}
#endif

#endif
