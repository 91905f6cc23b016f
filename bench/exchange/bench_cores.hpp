/// The cores that ranks are pinned to.
#pragma once

#include <sched.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace imex::bench {

/// What makes two logical cores threads of one: its package and core number.
using CoreIdentity = std::function<std::string(unsigned core)>;

/// One thread of each core first, then the further ones; in ascending order within both.
[[nodiscard]] std::vector<unsigned> spread(const std::vector<unsigned>& cores,
                                           const CoreIdentity& identity);
/// Those that this process may run on, no more than its CPU quota pays for. At least one.
[[nodiscard]] std::vector<unsigned> bench_cores();

/// Pins the calling thread, and lets it go where it was allowed to before.
class Pinned {
 public:
  [[nodiscard]] static Result<Pinned> to(unsigned core);
  Pinned(Pinned&& other) noexcept;
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned();

 private:
  explicit Pinned(std::vector<cpu_set_t> before) noexcept : before_(std::move(before)) {}
  std::vector<cpu_set_t> before_;
};

}  // namespace imex::bench
