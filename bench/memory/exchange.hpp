/// One export, import and map through channels, timed; what share.cpp and load.cpp have in common.
#pragma once

#include <string>

#include <imex/session.hpp>

#include "bench/report.hpp"

namespace imex::bench {

inline constexpr std::size_t kSharedBytes = 2U << 20U;

/// An allocation, and the two sessions between which it goes.
class Exchange {
 public:
  /// The same channel twice: through one daemon.
  [[nodiscard]] static Result<Exchange> open(const std::string& exporter_channel,
                                             const std::string& importer_channel,
                                             std::size_t bytes = kSharedBytes);
  /// Nanoseconds from export to mapped. Afterwards, untimed: checks that the mapping shows the
  /// allocation's bytes, and ends both.
  [[nodiscard]] Result<std::int64_t> run();
  [[nodiscard]] Result<Samples> run(std::size_t count);
  [[nodiscard]] std::size_t page_bytes() const noexcept { return memory_.page_bytes(); }

 private:
  Exchange(Session exporter, Session importer, Allocation memory) noexcept
      : exporter_(std::move(exporter)),
        importer_(std::move(importer)),
        memory_(std::move(memory)) {}
  Session exporter_, importer_;
  Allocation memory_;
  std::uint64_t round_ = 0;
};

}  // namespace imex::bench
