// The exported functions about the library itself, and about memory.

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "device_pointer.hpp"
#include "exports.hpp"

namespace {

using imex::Errc;
using imex::nccl::Comm;
using imex::nccl::failed;
using imex::nccl::with_comm;

constexpr std::size_t kPageBytes = 4096;

ncclResult_t no_pointer(const char* what) {
  return failed({Errc::kInvalidArgument, fmt::format("{} is NULL", what)});
}

ncclResult_t device_memory(const char* what) {
  return failed(
      {Errc::kInvalidArgument, fmt::format("{} is memory of a CUDA device", what),
       "this library has no CUDA backend yet: pass host memory, or use NVIDIA's library"});
}

ncclResult_t add_registration(ncclComm_t comm, void* data, std::size_t bytes, void** handle) {
  if (handle == nullptr) return no_pointer("the place for the handle");
  if (imex::nccl::is_device_memory(data)) return device_memory("the buffer");
  return with_comm(comm, [&](const std::shared_ptr<Comm>& own) {
    const auto added = own->add_registration(data, bytes);
    if (!added) return failed(added.error());
    *handle = *added;
    return ncclSuccess;
  });
}

ncclResult_t remove_registration(ncclComm_t comm, const void* handle) {
  return with_comm(comm, [&](const std::shared_ptr<Comm>& own) {
    return imex::nccl::report(own->remove_registration(handle));
  });
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return no_pointer("version");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
IMEX_NCCL_ALSO_PROFILED(ncclGetVersion);

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a call of CUDA failed";
    case ncclSystemError:
      return "a system call failed, or the other ranks cannot be reached";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "another rank is gone or has aborted";
    case ncclInProgress:
      return "in progress";
    case ncclTimeout:
      return "another rank did not come in time";
    case ncclNumResults:
      break;
  }
  return "no result of NCCL";
}
IMEX_NCCL_ALSO_PROFILED(ncclGetErrorString);

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm != nullptr) {
    const auto own = imex::nccl::comm_of(comm);
    const auto failure = own ? (*own)->failure() : std::nullopt;
    if (failure) return imex::nccl::lend(failure->to_string());
  }
  return imex::nccl::lend(imex::nccl::last_failure());
}
IMEX_NCCL_ALSO_PROFILED(ncclGetLastError);

void ncclResetDebugInit() {}
IMEX_NCCL_ALSO_PROFILED(ncclResetDebugInit);

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  if (ptr == nullptr) return no_pointer("ptr");
  const std::size_t pages = size / kPageBytes + (size % kPageBytes != 0 || size == 0 ? 1 : 0);
  void* const memory =
      pages > SIZE_MAX / kPageBytes ? nullptr : std::aligned_alloc(kPageBytes, pages * kPageBytes);
  if (memory == nullptr) {
    return failed({Errc::kResourceExhausted, fmt::format("{} bytes of memory", size)});
  }
  *ptr = memory;
  return ncclSuccess;
}
IMEX_NCCL_ALSO_PROFILED(ncclMemAlloc);

ncclResult_t ncclMemFree(void* ptr) {
  if (imex::nccl::is_device_memory(ptr)) return device_memory("ptr");
  std::free(ptr);
  return ncclSuccess;
}
IMEX_NCCL_ALSO_PROFILED(ncclMemFree);

ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t size, void** handle) {
  return add_registration(comm, buffer, size, handle);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommRegister);

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return remove_registration(comm, handle);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommDeregister);

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* win,
                                    int flags) {
  if (win == nullptr) return no_pointer("win");
  if (flags != NCCL_WIN_DEFAULT && flags != NCCL_WIN_COLL_SYMMETRIC) {
    return failed({Errc::kInvalidArgument, fmt::format("window with flags {:#x}", flags)});
  }
  void* handle = nullptr;
  const ncclResult_t result = add_registration(comm, buffer, size, &handle);
  if (result == ncclSuccess) *win = static_cast<ncclWindow_t>(handle);
  return result;
}
IMEX_NCCL_ALSO_PROFILED(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return remove_registration(comm, win);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** out) {
  if (out == nullptr) return no_pointer("out");
  return with_comm(comm, [&](const std::shared_ptr<Comm>& own) {
    const auto found = own->find_registration(win);
    if (!found) return failed(found.error());
    *out = found->data;
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclWinGetUserPtr);
