// The exported operations and groups. Streams are not looked at: work is done before the return.

#include <fmt/format.h>

#include "exports.hpp"

namespace {

using imex::Errc;
using imex::nccl::Call;
using imex::nccl::Comm;
using imex::nccl::Group;
using imex::nccl::with_comm;
using Kind = imex::nccl::Call::Kind;

ncclResult_t submit(ncclComm_t comm, Call call) {
  return with_comm(comm, [&](const std::shared_ptr<Comm>& own) {
    Group& group = Group::of_this_thread();
    if (auto checked = own->check(call); !checked) return group.refuse(checked.error());
    return group.add(own, call);
  });
}

}  // namespace

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return submit(
      comm,
      {.kind = Kind::kAllReduce, .in = in, .out = out, .count = count, .type = datatype, .op = op});
}
IMEX_NCCL_ALSO_PROFILED(ncclAllReduce);

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t) {
  return submit(comm, {.kind = Kind::kReduce,
                       .in = in,
                       .out = out,
                       .count = count,
                       .type = datatype,
                       .op = op,
                       .root = root});
}
IMEX_NCCL_ALSO_PROFILED(ncclReduce);

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t) {
  return submit(comm, {.kind = Kind::kBroadcast,
                       .in = in,
                       .out = out,
                       .count = count,
                       .type = datatype,
                       .root = root});
}
IMEX_NCCL_ALSO_PROFILED(ncclBroadcast);

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t) {
  return submit(comm, {.kind = Kind::kBroadcast,
                       .in = buffer,
                       .out = buffer,
                       .count = count,
                       .type = datatype,
                       .root = root});
}
IMEX_NCCL_ALSO_PROFILED(ncclBcast);

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return submit(comm, {.kind = Kind::kReduceScatter,
                       .in = in,
                       .out = out,
                       .count = count,
                       .type = datatype,
                       .op = op});
}
IMEX_NCCL_ALSO_PROFILED(ncclReduceScatter);

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t) {
  return submit(comm,
                {.kind = Kind::kAllGather, .in = in, .out = out, .count = count, .type = datatype});
}
IMEX_NCCL_ALSO_PROFILED(ncclAllGather);

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t) {
  return submit(comm,
                {.kind = Kind::kAllToAll, .in = in, .out = out, .count = count, .type = datatype});
}
IMEX_NCCL_ALSO_PROFILED(ncclAlltoAll);

ncclResult_t ncclGather(const void* in, void* out, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t) {
  return submit(comm, {.kind = Kind::kGather,
                       .in = in,
                       .out = out,
                       .count = count,
                       .type = datatype,
                       .root = root});
}
IMEX_NCCL_ALSO_PROFILED(ncclGather);

ncclResult_t ncclScatter(const void* in, void* out, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t) {
  return submit(comm, {.kind = Kind::kScatter,
                       .in = in,
                       .out = out,
                       .count = count,
                       .type = datatype,
                       .root = root});
}
IMEX_NCCL_ALSO_PROFILED(ncclScatter);

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t) {
  return submit(comm,
                {.kind = Kind::kSend, .in = in, .count = count, .type = datatype, .root = peer});
}
IMEX_NCCL_ALSO_PROFILED(ncclSend);

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t) {
  return submit(
      comm, {.kind = Kind::kReceive, .out = out, .count = count, .type = datatype, .root = peer});
}
IMEX_NCCL_ALSO_PROFILED(ncclRecv);

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return with_comm(comm, [&](const std::shared_ptr<Comm>& own) {
    const auto made = own->add_operator(datatype, residence, scalar);
    if (!made) return imex::nccl::failed(made.error());
    // By memory: the number is none of the enumeration's names.
    static_assert(sizeof *op == sizeof *made);
    if (op == nullptr) {
      static_cast<void>(own->remove_operator(*made));
      return imex::nccl::failed({Errc::kInvalidArgument, "op is NULL"});
    }
    *op = static_cast<ncclRedOp_t>(*made);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return with_comm(comm, [&](const std::shared_ptr<Comm>& own) {
    return imex::nccl::report(own->remove_operator(op));
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclRedOpDestroy);

ncclResult_t ncclGroupStart() {
  Group::of_this_thread().start();
  return ncclSuccess;
}
IMEX_NCCL_ALSO_PROFILED(ncclGroupStart);

ncclResult_t ncclGroupEnd() { return Group::of_this_thread().end(); }
IMEX_NCCL_ALSO_PROFILED(ncclGroupEnd);

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  constexpr ncclSimInfo_t kFresh = NCCL_SIM_INFO_INITIALIZER;
  if (info != nullptr && (info->magic != kFresh.magic || info->size < sizeof kFresh)) {
    return imex::nccl::failed({Errc::kInvalidArgument,
                               fmt::format("simulation with magic {:#x}", info->magic),
                               "start from NCCL_SIM_INFO_INITIALIZER"});
  }
  if (info != nullptr) info->estimatedTime = NCCL_UNDEF_FLOAT;
  return imex::nccl::report(Group::of_this_thread().end_unused());
}
IMEX_NCCL_ALSO_PROFILED(ncclGroupSimulateEnd);

// ---- functions of later releases that cannot be done here ----

// A program that was compiled against such a release finds them, and hears why. Their arguments are
// not looked at, and so not declared.
#define IMEX_NCCL_UNSUPPORTED(name, why)                                         \
  extern "C" IMEX_NCCL_API ncclResult_t name();                                  \
  extern "C" IMEX_NCCL_API decltype(name) p##name __attribute__((alias(#name))); \
  ncclResult_t name() {                                                          \
    return Group::of_this_thread().refuse({Errc::kUnsupported, #name ": " why}); \
  }                                                                              \
  static_assert(true)

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
IMEX_NCCL_UNSUPPORTED(ncclCommSuspend, "host memory of a communicator cannot be given back");
IMEX_NCCL_UNSUPPORTED(ncclCommResume, "host memory of a communicator cannot be given back");
IMEX_NCCL_UNSUPPORTED(ncclCommMemStats, "there is no GPU memory");
IMEX_NCCL_UNSUPPORTED(ncclCommQueryProperties, "there is no GPU");
IMEX_NCCL_UNSUPPORTED(ncclPutSignal, "windows are not mapped by the other ranks");
IMEX_NCCL_UNSUPPORTED(ncclSignal, "windows are not mapped by the other ranks");
IMEX_NCCL_UNSUPPORTED(ncclWaitSignal, "windows are not mapped by the other ranks");
IMEX_NCCL_UNSUPPORTED(ncclDevCommCreate, "there is no GPU to communicate from");
IMEX_NCCL_UNSUPPORTED(ncclDevCommDestroy, "there is no GPU to communicate from");
// NOLINTEND(readability-identifier-naming)
