/* The numbers and layouts of the interface of NCCL, as the tables of exchange.md 5.3 have them.
 * Compiled against our header and, where it is at hand, against NVIDIA's: both must agree. */
#include <nccl.h>
#include <stddef.h>

#define SAME(what, number) _Static_assert((what) == (number), #what " is not " #number)

SAME(sizeof(ncclUniqueId), 128);
SAME(_Alignof(ncclUniqueId), 1);
SAME(sizeof(ncclComm_t), sizeof(void*));
SAME(sizeof(ncclWindow_t), sizeof(void*));

SAME(ncclSuccess, 0);
SAME(ncclUnhandledCudaError, 1);
SAME(ncclSystemError, 2);
SAME(ncclInternalError, 3);
SAME(ncclInvalidArgument, 4);
SAME(ncclInvalidUsage, 5);
SAME(ncclRemoteError, 6);
SAME(ncclInProgress, 7);
SAME(sizeof(ncclResult_t), 4);

SAME(ncclInt8, 0);
SAME(ncclChar, 0);
SAME(ncclUint8, 1);
SAME(ncclInt32, 2);
SAME(ncclInt, 2);
SAME(ncclUint32, 3);
SAME(ncclInt64, 4);
SAME(ncclUint64, 5);
SAME(ncclFloat16, 6);
SAME(ncclHalf, 6);
SAME(ncclFloat32, 7);
SAME(ncclFloat, 7);
SAME(ncclFloat64, 8);
SAME(ncclDouble, 8);
SAME(ncclBfloat16, 9);
SAME(ncclFloat8e4m3, 10);
SAME(ncclFloat8e5m2, 11);
SAME(ncclNumTypes, 12);
SAME(sizeof(ncclDataType_t), 4);

SAME(ncclSum, 0);
SAME(ncclProd, 1);
SAME(ncclMax, 2);
SAME(ncclMin, 3);
SAME(ncclAvg, 4);
SAME(ncclNumOps, 5);
SAME(ncclMaxRedOp, 0x7fffffff);
SAME(sizeof(ncclRedOp_t), 4);
SAME(ncclScalarDevice, 0);
SAME(ncclScalarHostImmediate, 1);
SAME(sizeof(ncclScalarResidence_t), 4);

SAME(offsetof(ncclConfig_t, size), 0);
SAME(offsetof(ncclConfig_t, magic), 8);
SAME(offsetof(ncclConfig_t, version), 12);
SAME(offsetof(ncclConfig_t, blocking), 16);
SAME(offsetof(ncclConfig_t, cgaClusterSize), 20);
SAME(offsetof(ncclConfig_t, minCTAs), 24);
SAME(offsetof(ncclConfig_t, maxCTAs), 28);
SAME(offsetof(ncclConfig_t, netName), 32);
SAME(offsetof(ncclConfig_t, splitShare), 40);
SAME(offsetof(ncclConfig_t, trafficClass), 44);
SAME(offsetof(ncclConfig_t, commName), 48);
SAME(offsetof(ncclConfig_t, collnetEnable), 56);
SAME(offsetof(ncclConfig_t, CTAPolicy), 60);
SAME(offsetof(ncclConfig_t, shrinkShare), 64);
SAME(offsetof(ncclConfig_t, nvlsCTAs), 68);
SAME(offsetof(ncclSimInfo_t, estimatedTime), 16);
SAME(sizeof(ncclSimInfo_t), 24);

SAME(NCCL_SPLIT_NOCOLOR, -1);
SAME(NCCL_WIN_DEFAULT, 0);
SAME(NCCL_WIN_COLL_SYMMETRIC, 1);
SAME(NCCL_SHRINK_DEFAULT, 0);
SAME(NCCL_SHRINK_ABORT, 1);
SAME(NCCL_CTA_POLICY_DEFAULT, 0);
SAME(NCCL_CTA_POLICY_EFFICIENCY, 1);
SAME(NCCL_VERSION(2, 27, 3), 22703);
SAME(NCCL_VERSION(2, 8, 4), 2804);
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
SAME(sizeof(ncclConfig_t), 72);
#endif
