#include "rounds.hpp"

#include <algorithm>

#include "clock.hpp"

namespace imex::inference {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::uint64_t kArrivalLines = 2;

/// When a rank came to a meeting; two lines take turns.
std::uint64_t& arrival(const Rounds::Window& window, std::uint32_t rank, std::uint64_t number) {
  return *reinterpret_cast<std::uint64_t*>(window.of_rank[rank] + number % kArrivalLines * kLine);
}

}  // namespace

Result<Rounds> Rounds::create(Communicator* communicator) {
  Rounds made;
  made.communicator_ = communicator;
  if (communicator != nullptr) {
    made.rank_ = communicator->rank();
    made.ranks_ = communicator->size();
  }
  IMEX_TRY(made.arrivals_, made.allocate(kArrivalLines * kLine));
  return made;
}

Result<Rounds::Window> Rounds::allocate(std::size_t bytes) {
  Window window;
  if (communicator_ == nullptr) {
    window.local.resize(bytes + kLine);
    const auto address = reinterpret_cast<std::uintptr_t>(window.local.data());
    window.of_rank = {window.local.data() + (kLine - address % kLine) % kLine};
    return window;
  }
  IMEX_TRY(window.shared, communicator_->allocate(bytes));
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    std::span<std::byte> memory = window.shared;
    if (rank != rank_) {
      IMEX_TRY(memory, communicator_->peer_memory(window.shared, rank));
    }
    window.of_rank.push_back(memory.data());
  }
  return window;
}

Result<void> Rounds::meet() {
  arrived_ns_ = steady_ns();
  arrival(arrivals_, rank_, number_) = arrived_ns_;
  ++number_;
  for (std::uint32_t step = 1; step < ranks_; ++step) {
    IMEX_CHECK_OK(
        communicator_->put_signal(nullptr, arrivals_.shared.data(), 0, (rank_ + step) % ranks_));
  }
  for (std::uint32_t step = 1; step < ranks_; ++step) {
    IMEX_CHECK_OK(communicator_->wait_signal((rank_ + ranks_ - step) % ranks_, number_));
  }
  return {};
}

void Rounds::finish(ExchangeTimes& times) noexcept {
  if (ranks_ == 1) return;
  const std::uint64_t end = steady_ns();
  std::uint64_t last = arrived_ns_;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    last = std::max(last, arrival(arrivals_, rank, number_ - 1));
  }
  times.exchange.add(end > last ? end - last : 0);
  times.imbalance.add(last - arrived_ns_);
}

}  // namespace imex::inference
