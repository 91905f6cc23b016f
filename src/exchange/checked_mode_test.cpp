// What makes a communicator compare the calls of its ranks.

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "testing/ranks.hpp"

namespace imex::exchange {
namespace {

using testing_kit::run_ranks;
using testing_kit::Verdict;

/// Whether two ranks with these options are told that their sizes differ.
bool compares(const CommunicatorOptions& options) {
  std::atomic<int> told{0};
  run_ranks(2, options, [&](Communicator& comm) -> Verdict {
    std::array<float, 2> data{};  // one cache line of data in either case: nobody waits in vain
    const auto done = comm.all_reduce(data.data(), data.data(), 1 + comm.rank(), DataType::kFloat32,
                                      ReduceOp::kSum);
    if (!done && done.error().code != Errc::kInvalidArgument) return done.error().to_string();
    if (!done) ++told;
    return {};
  });
  return told == 2;
}

/// IMEX_CHECK for one test.
class CheckVariable {
 public:
  CheckVariable() {
    if (const char* text = std::getenv("IMEX_CHECK")) former_ = text;
  }
  CheckVariable(const CheckVariable&) = delete;
  CheckVariable& operator=(const CheckVariable&) = delete;
  ~CheckVariable() { set(former_ ? former_->c_str() : nullptr); }
  void set(const char* value) {
    if (value == nullptr) {
      ::unsetenv("IMEX_CHECK");
    } else {
      ::setenv("IMEX_CHECK", value, 1);
    }
  }

 private:
  std::optional<std::string> former_;
};

TEST(CheckedModeTest, IsByOptionThenByEnvironmentThenByBuild) {
#ifdef IMEX_CHECKED
  constexpr bool kByBuild = true;
#else
  constexpr bool kByBuild = false;
#endif
  CheckVariable variable;
  variable.set(nullptr);
  EXPECT_EQ(compares({}), kByBuild);
  for (const bool on : {true, false}) {
    variable.set(on ? "1" : "0");
    EXPECT_EQ(compares({}), on);
    CommunicatorOptions otherwise;
    otherwise.check = !on;
    EXPECT_EQ(compares(otherwise), !on);
  }
}

}  // namespace
}  // namespace imex::exchange
