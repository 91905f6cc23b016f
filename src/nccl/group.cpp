#include "group.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "os/thread.hpp"
#include "status.hpp"

namespace imex::nccl {

namespace {

using Work = std::function<Result<void>()>;

Group& thread_group() {
  thread_local Group group;
  return group;
}

Result<std::thread> start_thread(std::function<void()> body) {
  const os::SignalsBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return fail(Errc::kResourceExhausted, fmt::format("start a thread: {}", error.what()));
  }
}

/// Runs `work` on a thread of its own, during which `comm` and `parent` are in progress.
Result<void> run_as_job(const std::shared_ptr<Comm>& comm, const std::shared_ptr<Comm>& parent,
                        Work work) {
  IMEX_CHECK_OK(comm->begin_job());
  if (parent != nullptr) {
    if (auto begun = parent->begin_job(); !begun) {
      comm->end_job({});
      return begun;
    }
  }
  auto thread = start_thread([comm, parent, work = std::move(work)] {
    os::name_this_thread("imex-nccl");
    const auto done = work();
    if (parent != nullptr) parent->end_job({});
    comm->end_job(done);
  });
  if (!thread) {
    if (parent != nullptr) parent->end_job({});
    comm->end_job(fail(thread.error()));
    return fail(std::move(thread).error());
  }
  // Left to itself: an abort must not wait for ranks that never come. It holds all that it uses.
  thread->detach();
  return {};
}

/// Runs all, each on a thread of its own, the first on this one. The first error in order.
Result<void> run_side_by_side(const std::vector<Work>& works) {
  std::vector<Result<void>> results(works.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < works.size(); ++i) {
    auto thread = start_thread([&, i] { results[i] = works[i](); });
    if (thread) {
      threads.push_back(std::move(*thread));
    } else {
      results[i] = fail(std::move(thread).error());
    }
  }
  if (!works.empty()) results[0] = works[0]();
  for (std::thread& thread : threads) thread.join();
  for (auto& result : results) {
    if (!result) return std::move(result);
  }
  return {};
}

/// Makes the communicator and gives out its handle, for callers that wait for it.
Result<void> create_and_give(const Creation& creation) {
  IMEX_TRY(const bool takes_part, creation.comm->set_up(creation.setup));
  if (takes_part) *creation.handle = new ncclComm{.comm = creation.comm};
  return {};
}

Result<void> create_later(const Creation& creation) {
  const auto work = [comm = creation.comm, setup = creation.setup]() -> Result<void> {
    IMEX_TRY(const bool takes_part, comm->set_up(setup));
    static_cast<void>(takes_part);
    return {};
  };
  IMEX_CHECK_OK(run_as_job(creation.comm, creation.parent, work));
  return {};
}

}  // namespace

Result<std::shared_ptr<Comm>> comm_of(ncclComm_t handle) {
  if (handle == nullptr) return fail(Errc::kInvalidArgument, "the communicator is NULL");
  if (handle->magic != ncclComm::kMagic) {
    return fail(Errc::kInvalidArgument, "this is no communicator, or one that has ended");
  }
  return handle->comm;
}

Group& Group::of_this_thread() { return thread_group(); }

ncclResult_t Group::refuse(const Error& error) {
  if (depth_ != 0 && !refused_) refused_ = error;
  return failed(error);
}

ncclResult_t Group::add(const std::shared_ptr<Comm>& comm, const Call& call) {
  if (depth_ == 0 && comm->blocking()) return report(comm->run({&call, 1}));
  if (call_count_ == kCallsMax) {
    return refuse({Errc::kFailedPrecondition, fmt::format("{} calls in one group", kCallsMax),
                   "end the group earlier"});
  }
  const auto found = std::find_if(queues_.begin(), queues_.end(),
                                  [&](const Queue& each) { return each.comm == comm; });
  Queue& queue = found == queues_.end() ? queues_.emplace_back(Queue{comm, {}}) : *found;
  queue.calls.push_back(call);
  ++call_count_;
  return depth_ == 0 ? run() : ncclSuccess;
}

ncclResult_t Group::add(Creation creation) {
  creations_.push_back(std::move(creation));
  return depth_ == 0 ? run() : ncclSuccess;
}

bool Group::has_calls_of(const Comm& comm) const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [&](const Queue& each) { return each.comm.get() == &comm; });
}

void Group::clear() {
  queues_.clear();
  creations_.clear();
  call_count_ = 0;
  refused_.reset();
}

ncclResult_t Group::run() {
  if (refused_) {
    const Error error = *refused_;
    clear();
    return failed(Error(error).context("the group was not run"));
  }
  std::vector<Work> waited_for;
  Result<void> started;
  bool in_progress = false;
  const auto note = [&](Result<void> result) {
    if (result) in_progress = true;
    if (!result && started) started = std::move(result);
  };
  for (const Creation& creation : creations_) {
    if (creation.comm->blocking()) {
      waited_for.emplace_back([&creation] { return create_and_give(creation); });
    } else {
      if (creation.handle != nullptr) *creation.handle = new ncclComm{.comm = creation.comm};
      note(create_later(creation));
    }
  }
  for (const Queue& queue : queues_) {
    if (queue.comm->blocking()) {
      waited_for.emplace_back([&queue] { return queue.comm->run(queue.calls); });
    } else {
      note(run_as_job(queue.comm, nullptr,
                      [comm = queue.comm, calls = queue.calls] { return comm->run(calls); }));
    }
  }
  auto done = run_side_by_side(waited_for);
  clear();
  if (!done) return failed(done.error());
  if (!started) return failed(started.error());
  return in_progress ? ncclInProgress : ncclSuccess;
}

ncclResult_t Group::end() {
  if (depth_ == 0) {
    return failed({Errc::kFailedPrecondition, "ncclGroupEnd() without ncclGroupStart()"});
  }
  return --depth_ == 0 ? run() : ncclSuccess;
}

Result<void> Group::end_unused() {
  if (depth_ == 0) {
    return fail(Errc::kFailedPrecondition, "ncclGroupSimulateEnd() without ncclGroupStart()");
  }
  if (--depth_ != 0) return {};
  auto refused = refused_ ? Result<void>(fail(*refused_)) : Result<void>();
  clear();
  return refused;
}

}  // namespace imex::nccl
