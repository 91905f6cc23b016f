#include "comm.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "comm_turn.hpp"
#include "rendezvous_store.hpp"

namespace imex::nccl {

namespace {

/// Nothing is awaited by it but threads of this process, which notify.
constexpr std::chrono::seconds kLookAgain{1};
constexpr std::size_t kOperatorsMax = 4096;
constexpr std::size_t kRegistrationsMax = 1 << 20;

}  // namespace

Result<std::chrono::milliseconds> wait_timeout() {
  constexpr std::chrono::milliseconds kDefault{600'000};
  const char* const text = std::getenv("IMEX_NCCL_TIMEOUT_MS");  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') return kDefault;
  const std::string_view digits(text);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc{} || end != digits.end()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("IMEX_NCCL_TIMEOUT_MS is '{}', not a number of milliseconds", digits));
  }
  return std::chrono::milliseconds(value);
}

void Comm::end_turn() {
  const MutexLock lock(mutex_);
  busy_ = false;
  changed_.notify_all();
}

Error Comm::not_usable() {
  if (failure_) return *failure_;
  if (aborted_) return {Errc::kAborted, "the communicator was aborted"};
  if (revoked_) {
    return {Errc::kFailedPrecondition, "the communicator was revoked",
            "shrink it, or end it with ncclCommDestroy()"};
  }
  if (finalized_) {
    return {Errc::kFailedPrecondition, "the communicator was finalized: no operation may follow"};
  }
  return {
      Errc::kFailedPrecondition, "the communicator is not there yet",
      "wait until ncclCommGetAsyncError() no longer says ncclInProgress, or for ncclGroupEnd()"};
}

Comm::Facts Comm::facts() {
  const MutexLock lock(mutex_);
  return facts_;
}

Result<bool> Comm::set_up(const Setup& setup) {
  auto made = setup(stop_.get_token());
  if (made && !*made) return false;
  auto adopted = made ? adopt(std::move(**made)) : Result<bool>(fail(std::move(made).error()));
  if (!adopted) {
    const MutexLock lock(mutex_);
    if (!failure_) failure_ = adopted.error();
  }
  return adopted;
}

Result<bool> Comm::adopt(Communicator made) {
  IMEX_TRY(const auto timeout, wait_timeout());
  {
    const MutexLock lock(mutex_);
    if (aborted_) return fail(Errc::kAborted, "the communicator was aborted while it was made");
    facts_.rank = made.rank();
    facts_.ranks = made.size();
    communicator_.emplace(std::move(made));
    made_ = true;  // abort() reaches it from now on
    busy_ = true;
  }
  auto messages = Messages::create(*communicator_, timeout);
  const MutexLock lock(mutex_);
  busy_ = false;
  changed_.notify_all();
  if (!messages) return fail(std::move(messages).error());
  messages_.emplace(std::move(*messages));
  ready_ = true;
  return true;
}

Result<std::optional<Communicator>> Comm::derive(
    const std::function<Result<std::optional<Communicator>>(Communicator&)>& use) {
  IMEX_TRY(const Turn turn, Turn::take(*this));
  return use(*communicator_);
}

Result<UniqueId> Comm::make_next_meeting() {
  IMEX_CHECK_OK(usable());
  IMEX_TRY(const Turn turn, Turn::take(*this));
  return RendezvousStore::instance().keep(communicator_->rendezvous());
}

// ---- states ----

Result<void> Comm::begin_job() {
  const MutexLock lock(mutex_);
  if (jobs_ != 0) {
    return fail(Errc::kFailedPrecondition, "an earlier call on the communicator is in progress",
                "wait until ncclCommGetAsyncError() no longer says ncclInProgress");
  }
  ++jobs_;
  return {};
}

void Comm::end_job(const Result<void>& result) {
  const MutexLock lock(mutex_);
  --jobs_;
  if (!result && !failure_ && !revoked_) failure_ = result.error();
  changed_.notify_all();
}

bool Comm::has_job() {
  const MutexLock lock(mutex_);
  return jobs_ != 0;
}

void Comm::wait_for_jobs() {
  const MutexLock lock(mutex_);
  while (jobs_ != 0) {
    static_cast<void>(changed_.wait_until(mutex_, std::chrono::steady_clock::now() + kLookAgain));
  }
}

Result<Comm::Facts> Comm::usable_facts() {
  const MutexLock lock(mutex_);
  if (!ready_ || aborted_ || revoked_ || finalized_) return fail(not_usable());
  return facts_;
}

Result<void> Comm::usable() {
  IMEX_TRY(const Facts known, usable_facts());
  static_cast<void>(known);
  return {};
}

Result<void> Comm::finalize() {
  IMEX_CHECK_OK(usable());
  const MutexLock lock(mutex_);
  finalized_ = true;
  return {};
}

void Comm::end_operations() {
  if (made_) communicator_->abort();
  while (busy_) {
    static_cast<void>(changed_.wait_until(mutex_, std::chrono::steady_clock::now() + kLookAgain));
  }
}

void Comm::abort() {
  const MutexLock lock(mutex_);
  aborted_ = true;
  stop_.request_stop();
  end_operations();
}

void Comm::revoke() {
  const MutexLock lock(mutex_);
  revoked_ = true;
  end_operations();
}

std::optional<Error> Comm::failure() {
  const MutexLock lock(mutex_);
  if (failure_) return failure_;
  if (made_ && !revoked_) return communicator_->async_error();
  return std::nullopt;
}

// ---- operators and registrations ----

Result<int> Comm::add_operator(int type, int residence, const void* scalar) {
  if (type < 0 || type >= ncclNumTypes) {
    return fail(Errc::kInvalidArgument, fmt::format("type {} is none of 0 to 11", type));
  }
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
    return fail(Errc::kInvalidArgument, fmt::format("residence {} is neither 0 nor 1", residence));
  }
  if (scalar == nullptr) return fail(Errc::kInvalidArgument, "the scalar is at no address");
  Operator added{.type = static_cast<DataType>(type)};
  if (residence == ncclScalarHostImmediate) {
    std::memcpy(added.value.emplace().data(), scalar, element_bytes(added.type));
  } else {
    added.at = scalar;
  }
  const MutexLock lock(mutex_);
  auto free = std::find(operators_.begin(), operators_.end(), std::nullopt);
  if (free == operators_.end()) {
    if (operators_.size() == kOperatorsMax) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("{} operators of this communicator are in use", kOperatorsMax),
                  "end them with ncclRedOpDestroy()");
    }
    free = operators_.emplace(operators_.end());
  }
  *free = added;
  return ncclNumOps + static_cast<int>(free - operators_.begin());
}

Result<void> Comm::remove_operator(int op) {
  const MutexLock lock(mutex_);
  const std::int64_t index = std::int64_t{op} - ncclNumOps;
  if (index < 0 || static_cast<std::size_t>(index) >= operators_.size() ||
      !operators_[static_cast<std::size_t>(index)]) {
    return fail(Errc::kInvalidArgument,
                fmt::format("operation {} was not made for this communicator", op));
  }
  operators_[static_cast<std::size_t>(index)].reset();
  return {};
}

Result<Comm::Registration*> Comm::add_registration(void* data, std::size_t bytes) {
  if (data == nullptr || bytes == 0) {
    return fail(Errc::kInvalidArgument, fmt::format("register {} bytes at {}", bytes, data));
  }
  const MutexLock lock(mutex_);
  if (registrations_.size() == kRegistrationsMax) {
    return fail(Errc::kResourceExhausted,
                fmt::format("{} registrations of this communicator", kRegistrationsMax));
  }
  registrations_.push_back(std::make_unique<Registration>(Registration{data, bytes}));
  return registrations_.back().get();
}

Result<void> Comm::remove_registration(const void* handle) {
  const MutexLock lock(mutex_);
  if (std::erase_if(registrations_, [&](const auto& each) { return each.get() == handle; }) == 0) {
    return fail(Errc::kInvalidArgument, "no such registration of this communicator");
  }
  return {};
}

Result<Comm::Registration> Comm::find_registration(const void* handle) {
  const MutexLock lock(mutex_);
  for (const auto& each : registrations_) {
    if (each.get() == handle) return *each;
  }
  return fail(Errc::kInvalidArgument, "no such window of this communicator");
}

}  // namespace imex::nccl
