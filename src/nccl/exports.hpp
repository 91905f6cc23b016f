/// What the files of exported functions share.
#pragma once

#include <imex/nccl/nccl.h>

#include "group.hpp"
#include "status.hpp"

/// The name that profilers call: the same function.
#define IMEX_NCCL_ALSO_PROFILED(name) \
  extern "C" decltype(name) p##name __attribute__((alias(#name)))

namespace imex::nccl {

/// Runs `use(Comm&)` with what stands behind the handle; refuses within a group as outside.
template <class Use>
ncclResult_t with_comm(ncclComm_t handle, Use&& use) {
  auto comm = comm_of(handle);
  if (!comm) return Group::of_this_thread().refuse(comm.error());
  return use(*comm);
}

}  // namespace imex::nccl
