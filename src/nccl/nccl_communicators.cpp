// The exported functions that make, ask and end communicators.

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "device_pointer.hpp"
#include "exports.hpp"
#include "rendezvous_store.hpp"
#include "split.hpp"

namespace {

using imex::Errc;
using imex::Error;
using imex::fail;
using imex::Result;
using imex::nccl::Comm;
using imex::nccl::failed;
using imex::nccl::Group;
using imex::nccl::report;
using imex::nccl::Setup;
using imex::nccl::with_comm;
using CommPtr = std::shared_ptr<Comm>;
using MadeOrNot = Result<std::optional<imex::Communicator>>;

static_assert(sizeof(ncclUniqueId) == sizeof(imex::UniqueId));

ncclResult_t refused(const Error& error) { return Group::of_this_thread().refuse(error); }
ncclResult_t missing(const char* what) {
  return refused({Errc::kInvalidArgument, fmt::format("{} is NULL", what)});
}

/// Whether calls wait; nothing where the configuration leaves it open.
Result<std::optional<bool>> blocking_of(const ncclConfig_t* config) {
  if (config == nullptr) return std::nullopt;
  constexpr std::size_t kBytesMin = offsetof(ncclConfig_t, blocking) + sizeof(int);
  constexpr std::size_t kBytesMax = 4096;  // more is no size but memory that nobody set
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  const unsigned magic = known.magic;
  std::size_t bytes = 0;
  std::memcpy(&bytes, config, sizeof bytes);
  if (bytes < kBytesMin || bytes > kBytesMax) {
    return fail(Errc::kInvalidArgument, fmt::format("configuration of {} bytes", bytes),
                "start from NCCL_CONFIG_INITIALIZER");
  }
  std::memcpy(&known, config, std::min(bytes, sizeof known));
  if (known.magic != magic) {
    return fail(Errc::kInvalidArgument,
                fmt::format("configuration with magic {:#x}: {:#x} wanted", known.magic, magic),
                "start from NCCL_CONFIG_INITIALIZER");
  }
  if (known.blocking == NCCL_CONFIG_UNDEF_INT) return std::nullopt;
  if (known.blocking != 0 && known.blocking != 1) {
    return fail(Errc::kInvalidArgument,
                fmt::format("configuration: blocking is {}, neither 0 nor 1", known.blocking));
  }
  return known.blocking == 1;
}

Setup meet_at(const ncclUniqueId& id, std::uint32_t rank, std::uint32_t ranks) {
  imex::UniqueId place;
  std::memcpy(place.bytes.data(), id.internal, place.bytes.size());
  return [place, rank, ranks]() -> MadeOrNot {
    IMEX_TRY(const auto timeout, imex::nccl::wait_timeout());
    IMEX_TRY(auto made, imex::Communicator::create(place, rank, ranks, {.timeout = timeout}));
    imex::nccl::RendezvousStore::instance().met(place);
    return std::optional(std::move(made));
  };
}

/// `device` of each rank that is made by ncclCommInitAll().
ncclResult_t initialise(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                        const ncclConfig_t* config, int device = 0) {
  if (comm == nullptr) return missing("comm");
  *comm = NCCL_COMM_NULL;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return refused({Errc::kInvalidArgument, fmt::format("rank {} of {} ranks", rank, ranks)});
  }
  const auto blocking = blocking_of(config);
  if (!blocking) return refused(blocking.error());
  const Comm::Facts facts{.rank = static_cast<std::uint32_t>(rank),
                          .ranks = static_cast<std::uint32_t>(ranks),
                          .device = device,
                          .blocking = blocking->value_or(true)};
  return Group::of_this_thread().add({.comm = std::make_shared<Comm>(facts),
                                      .setup = meet_at(id, facts.rank, facts.ranks),
                                      .parent = nullptr,
                                      .handle = comm});
}

/// A communicator made from `parent` by `use`. `handle` null: this rank will have no part in it.
ncclResult_t derive(const CommPtr& parent, ncclComm_t* handle, const ncclConfig_t* config,
                    std::function<MadeOrNot(imex::Communicator&)> use) {
  const auto blocking = blocking_of(config);
  if (!blocking) return refused(blocking.error());
  Comm::Facts facts = parent->facts();
  facts.blocking = blocking->value_or(config == nullptr ? facts.blocking : true);
  return Group::of_this_thread().add(
      {.comm = std::make_shared<Comm>(facts),
       .setup = [parent, use = std::move(use)] { return parent->derive(use); },
       .parent = parent,
       .handle = handle});
}

/// The handle is of no more use, which a later call with it will see as far as it can be seen.
void end_handle(ncclComm_t handle) {
  *static_cast<volatile std::uint64_t*>(&handle->magic) = 0;
  delete handle;
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  if (uniqueId == nullptr) return missing("uniqueId");
  const auto id = imex::nccl::RendezvousStore::instance().make();
  if (!id) return failed(id.error());
  std::memcpy(uniqueId->internal, id->bytes.data(), id->bytes.size());
  return ncclSuccess;
}
IMEX_NCCL_ALSO_PROFILED(ncclGetUniqueId);

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return initialise(comm, nranks, commId, rank, nullptr);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return initialise(comm, nranks, commId, rank, config);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitRankConfig);

ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  if (commIds == nullptr) return missing("commIds");
  if (nId < 1 || nId > nranks) {
    return refused({Errc::kInvalidArgument, fmt::format("{} ids for {} ranks", nId, nranks)});
  }
  return initialise(newcomm, nranks, commIds[0], myrank, config);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitRankScalable);

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  if (comm == nullptr) return missing("comm");
  if (ndev < 1) return refused({Errc::kInvalidArgument, fmt::format("{} ranks", ndev)});
  const auto id = imex::nccl::RendezvousStore::instance().make();
  if (!id) return refused(id.error());
  ncclUniqueId place;
  std::memcpy(place.internal, id->bytes.data(), id->bytes.size());
  Group& group = Group::of_this_thread();
  group.start();
  for (int rank = 0; rank != ndev; ++rank) {
    const int device = devlist == nullptr ? rank : devlist[rank];
    static_cast<void>(initialise(comm + rank, ndev, place, rank, nullptr, device));
  }
  return group.end();  // has kept an error of the calls
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitAll);

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  if (newcomm == nullptr) return missing("newcomm");
  *newcomm = NCCL_COMM_NULL;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return refused({Errc::kInvalidArgument, fmt::format("color {} is negative", color)});
  }
  return with_comm(comm, [&](const CommPtr& parent) {
    if (auto usable = parent->usable(); !usable) return refused(usable.error());
    return derive(
        parent, color == NCCL_SPLIT_NOCOLOR ? nullptr : newcomm, config,
        [color, key](imex::Communicator& all) { return imex::nccl::split(all, color, key); });
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommSplit);

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  if (newcomm == nullptr) return missing("newcomm");
  *newcomm = NCCL_COMM_NULL;
  if (excludeRanksList == nullptr || excludeRanksCount < 1) {
    return refused({Errc::kInvalidArgument, "shrink without ranks to exclude"});
  }
  if (shrinkFlags != NCCL_SHRINK_DEFAULT && shrinkFlags != NCCL_SHRINK_ABORT) {
    return refused({Errc::kInvalidArgument, fmt::format("shrink with flags {:#x}", shrinkFlags)});
  }
  return with_comm(comm, [&](const CommPtr& parent) {
    const std::uint32_t ranks = parent->facts().ranks;
    std::vector<std::uint32_t> excluded;
    for (int i = 0; i != excludeRanksCount; ++i) {
      const int rank = excludeRanksList[i];
      if (rank < 0 || static_cast<std::uint32_t>(rank) >= ranks) {
        return refused({Errc::kInvalidArgument,
                        fmt::format("shrink without rank {} of {} ranks", rank, ranks)});
      }
      excluded.push_back(static_cast<std::uint32_t>(rank));
    }
    if (shrinkFlags == NCCL_SHRINK_ABORT) {
      parent->revoke();
      parent->wait_for_jobs();
    }
    return derive(parent, newcomm, config, [excluded](imex::Communicator& all) -> MadeOrNot {
      IMEX_TRY(auto smaller, all.shrink(excluded));
      return std::optional(std::move(smaller));
    });
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommShrink);

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return with_comm(comm, [](const CommPtr& own) {
    if (auto done = own->finalize(); !done) return refused(done.error());
    return own->has_job() ? ncclInProgress : ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommFinalize);

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return with_comm(comm, [&](const CommPtr& own) {
    if (Group::of_this_thread().has_calls_of(*own)) {
      return refused({Errc::kFailedPrecondition, "calls on the communicator wait for the group",
                      "end the group first"});
    }
    own->wait_for_jobs();
    end_handle(comm);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return with_comm(comm, [&](const CommPtr& own) {
    own->abort();
    end_handle(comm);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommAbort);

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  if (revokeFlags != 0) {
    return refused({Errc::kInvalidArgument, fmt::format("revoke with flags {:#x}", revokeFlags)});
  }
  return with_comm(comm, [](const CommPtr& own) {
    own->revoke();
    return own->has_job() ? ncclInProgress : ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommRevoke);

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  if (asyncError == nullptr) return missing("asyncError");
  return with_comm(comm, [&](const CommPtr& own) {
    if (own->has_job()) {
      *asyncError = ncclInProgress;
    } else {
      const auto failure = own->failure();
      *asyncError = failure ? imex::nccl::result_of(failure->code) : ncclSuccess;
    }
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommGetAsyncError);

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (count == nullptr) return missing("count");
  return with_comm(comm, [&](const CommPtr& own) {
    *count = static_cast<int>(own->facts().ranks);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommCount);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (rank == nullptr) return missing("rank");
  return with_comm(comm, [&](const CommPtr& own) {
    *rank = static_cast<int>(own->facts().rank);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommUserRank);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (device == nullptr) return missing("device");
  return with_comm(comm, [&](const CommPtr& own) {
    *device = own->facts().device;
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommCuDevice);
