// The exported functions that make, ask and end communicators.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "device_pointer.hpp"
#include "exports.hpp"
#include "rendezvous_store.hpp"

namespace {

using imex::Errc;
using imex::Error;
using imex::fail;
using imex::Result;
using imex::nccl::Comm;
using imex::nccl::failed;
using imex::nccl::Group;
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
  return [place, rank, ranks](const std::stop_token& stop) -> MadeOrNot {
    IMEX_TRY(const auto timeout, imex::nccl::wait_timeout());
    IMEX_TRY(auto made,
             imex::Communicator::create(place, rank, ranks, {.timeout = timeout, .stop = stop}));
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
       .setup = [parent,
                 use = std::move(use)](const std::stop_token&) { return parent->derive(use); },
       .parent = parent,
       .handle = handle});
}

/// What the ranks of a communicator that grows tell each other: one of them has the id.
struct GrowthNotice {
  std::uint64_t has_id = 0;
  imex::UniqueId id{};
};

MadeOrNot grow(imex::Communicator& all, const GrowthNotice& own, std::uint32_t ranks) {
  std::vector<GrowthNotice> notices(all.size());
  IMEX_CHECK_OK(all.all_gather(&own, notices.data(), sizeof own));
  const auto told = std::find_if(notices.begin(), notices.end(),
                                 [](const GrowthNotice& each) { return each.has_id == 1; });
  if (told == notices.end()) {
    return fail(Errc::kInvalidArgument, "grow: no rank of the communicator has passed an id",
                "pass the one of ncclCommGetUniqueId() in the rank that made it");
  }
  IMEX_TRY(auto larger, all.grow(told->id, ranks));
  imex::nccl::RendezvousStore::instance().met(told->id);
  return std::optional(std::move(larger));
}

/// The handle is of no more use, which a later call with it will see as far as it can be seen.
void end_handle(ncclComm_t handle) {
  *static_cast<volatile std::uint64_t*>(&handle->magic) = 0;
  delete handle;
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id) {
  if (unique_id == nullptr) return missing("unique_id");
  const auto id = imex::nccl::RendezvousStore::instance().keep(imex::Rendezvous::create());
  if (!id) return failed(id.error());
  std::memcpy(unique_id->internal, id->bytes.data(), id->bytes.size());
  return ncclSuccess;
}
IMEX_NCCL_ALSO_PROFILED(ncclGetUniqueId);

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId comm_id, int rank) {
  return initialise(comm, ranks, comm_id, rank, nullptr);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId comm_id, int rank,
                                    ncclConfig_t* config) {
  return initialise(comm, ranks, comm_id, rank, config);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitRankConfig);

ncclResult_t ncclCommInitRankScalable(ncclComm_t* new_comm, int ranks, int rank, int id_count,
                                      ncclUniqueId* comm_ids, ncclConfig_t* config) {
  if (comm_ids == nullptr) return missing("comm_ids");
  if (id_count < 1 || id_count > ranks) {
    return refused({Errc::kInvalidArgument, fmt::format("{} ids for {} ranks", id_count, ranks)});
  }
  return initialise(new_comm, ranks, comm_ids[0], rank, config);
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitRankScalable);

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ranks, const int* devices) {
  if (comm == nullptr) return missing("comm");
  if (ranks < 1) return refused({Errc::kInvalidArgument, fmt::format("{} ranks", ranks)});
  const auto id = imex::nccl::RendezvousStore::instance().keep(imex::Rendezvous::create());
  if (!id) return refused(id.error());
  ncclUniqueId place;
  std::memcpy(place.internal, id->bytes.data(), id->bytes.size());
  Group& group = Group::of_this_thread();
  group.start();
  for (int rank = 0; rank != ranks; ++rank) {
    const int device = devices == nullptr ? rank : devices[rank];
    static_cast<void>(initialise(comm + rank, ranks, place, rank, nullptr, device));
  }
  return group.end();  // has kept an error of the calls
}
IMEX_NCCL_ALSO_PROFILED(ncclCommInitAll);

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  if (new_comm == nullptr) return missing("new_comm");
  *new_comm = NCCL_COMM_NULL;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return refused({Errc::kInvalidArgument, fmt::format("color {} is negative", color)});
  }
  return with_comm(comm, [&](const CommPtr& parent) {
    if (auto usable = parent->usable(); !usable) return refused(usable.error());
    std::optional<std::uint32_t> chosen;
    if (color >= 0) chosen = static_cast<std::uint32_t>(color);
    return derive(parent, chosen ? new_comm : nullptr, config,
                  [chosen, key](imex::Communicator& all) { return all.split(chosen, key); });
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommSplit);

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count,
                            ncclComm_t* new_comm, ncclConfig_t* config, int flags) {
  if (new_comm == nullptr) return missing("new_comm");
  *new_comm = NCCL_COMM_NULL;
  if (excluded == nullptr || excluded_count < 1) {
    return refused({Errc::kInvalidArgument, "shrink without ranks to exclude"});
  }
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
    return refused({Errc::kInvalidArgument, fmt::format("shrink with flags {:#x}", flags)});
  }
  return with_comm(comm, [&](const CommPtr& parent) {
    const std::uint32_t ranks = parent->facts().ranks;
    std::vector<std::uint32_t> dead;
    for (int i = 0; i != excluded_count; ++i) {
      const int rank = excluded[i];
      if (rank < 0 || static_cast<std::uint32_t>(rank) >= ranks) {
        return refused({Errc::kInvalidArgument,
                        fmt::format("shrink without rank {} of {} ranks", rank, ranks)});
      }
      dead.push_back(static_cast<std::uint32_t>(rank));
    }
    if (flags == NCCL_SHRINK_ABORT) {
      parent->revoke();
      parent->wait_for_jobs();
    }
    return derive(parent, new_comm, config, [dead](imex::Communicator& all) -> MadeOrNot {
      IMEX_TRY(auto smaller, all.shrink(dead));
      return std::optional(std::move(smaller));
    });
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommShrink);

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* unique_id) {
  if (unique_id == nullptr) return missing("unique_id");
  return with_comm(comm, [&](const CommPtr& own) {
    const auto id = own->make_next_meeting();
    if (!id) return refused(id.error());
    std::memcpy(unique_id->internal, id->bytes.data(), id->bytes.size());
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommGetUniqueId);

ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* unique_id, int rank,
                          ncclComm_t* new_comm, ncclConfig_t* config) {
  if (new_comm == nullptr) return missing("new_comm");
  if (comm == nullptr) {
    if (unique_id == nullptr) return missing("unique_id of a rank that joins");
    return initialise(new_comm, ranks, *unique_id, rank, config);
  }
  *new_comm = NCCL_COMM_NULL;
  return with_comm(comm, [&](const CommPtr& parent) {
    if (auto usable = parent->usable(); !usable) return refused(usable.error());
    if (ranks < 1 || static_cast<std::uint32_t>(ranks) <= parent->facts().ranks || rank != -1) {
      return refused(
          {Errc::kInvalidArgument,
           fmt::format("grow from {} to {} ranks as rank {}", parent->facts().ranks, ranks, rank),
           "pass more ranks than there are, and rank -1, which keeps the number"});
    }
    GrowthNotice notice;
    if (unique_id != nullptr) {
      notice.has_id = 1;
      std::memcpy(notice.id.bytes.data(), unique_id->internal, notice.id.bytes.size());
    }
    return derive(parent, new_comm, config,
                  [notice, wanted = static_cast<std::uint32_t>(ranks)](imex::Communicator& all) {
                    return grow(all, notice, wanted);
                  });
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommGrow);

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

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (flags != 0) {
    return refused({Errc::kInvalidArgument, fmt::format("revoke with flags {:#x}", flags)});
  }
  return with_comm(comm, [](const CommPtr& own) {
    own->revoke();
    return own->has_job() ? ncclInProgress : ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommRevoke);

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (error == nullptr) return missing("error");
  return with_comm(comm, [&](const CommPtr& own) {
    if (own->has_job()) {
      *error = ncclInProgress;
    } else {
      const auto failure = own->failure();
      *error = failure ? imex::nccl::result_of(failure->code) : ncclSuccess;
    }
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommGetAsyncError);

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  if (count == nullptr) return missing("count");
  return with_comm(comm, [&](const CommPtr& own) {
    *count = static_cast<int>(own->facts().ranks);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommCount);

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (rank == nullptr) return missing("rank");
  return with_comm(comm, [&](const CommPtr& own) {
    *rank = static_cast<int>(own->facts().rank);
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommUserRank);

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  if (device == nullptr) return missing("device");
  return with_comm(comm, [&](const CommPtr& own) {
    *device = own->facts().device;
    return ncclSuccess;
  });
}
IMEX_NCCL_ALSO_PROFILED(ncclCommCuDevice);
