#include "base/result.hpp"

#include <cerrno>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/exhaustion.hpp"

namespace imex {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return fail(Errc::kInvalidArgument, "odd number", "give an even one");
  return number / 2;
}

Result<int> quarter(int number) {
  IMEX_TRY(const int first, half(number));
  IMEX_TRY(const int second, half(first));
  return second;
}

Result<void> check(int number) {
  IMEX_CHECK_OK(half(number));
  return {};
}

TEST(ResultTest, TryPassesValuesAndErrorsOn) {
  EXPECT_EQ(quarter(8).value(), 2);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "odd number");
  EXPECT_EQ(failed.error().hint, "give an even one");
  EXPECT_TRUE(check(2));
  EXPECT_EQ(check(3).error().code, Errc::kInvalidArgument);
}

Result<std::unique_ptr<int>> make_owned() { return std::make_unique<int>(7); }
Result<int> open_owned() {
  IMEX_TRY(const std::unique_ptr<int> owned, make_owned());
  return *owned;
}

TEST(ResultTest, TryMovesWhatCannotBeCopied) { EXPECT_EQ(open_owned().value(), 7); }

Result<int> count_calls(int& calls) {
  ++calls;
  return fail(Errc::kAborted, "x");
}
Result<void> try_once(int& calls) {
  IMEX_TRY([[maybe_unused]] const int value, count_calls(calls));
  return {};
}

TEST(ResultTest, TheExpressionIsEvaluatedOnce) {
  int calls = 0;
  EXPECT_FALSE(try_once(calls));
  EXPECT_EQ(calls, 1);
}

TEST(ResultTest, ErrorsReadAsOneParagraph) {
  Error error{Errc::kPeerLost, "signal abandoned", "restart rank 3", 3};
  EXPECT_EQ(error.to_string(), "signal abandoned (peer_lost); restart rank 3");
  error = std::move(error).context("import segment 7");
  EXPECT_EQ(error.message, "import segment 7: signal abandoned");
  EXPECT_EQ(error.rank, 3U);
  EXPECT_EQ((Error{Errc::kStale, "old", "", kNoRank}).to_string(), "old (stale)");
}

TEST(ResultTest, CodesHaveDistinctNamesAndComeBackFromTheirNumbers) {
  std::set<std::string_view> names;
  for (std::uint32_t number = 0; number <= static_cast<std::uint32_t>(Errc::kInternal); ++number) {
    const Errc code = errc_from_number(number);
    EXPECT_EQ(static_cast<std::uint32_t>(code), number);
    EXPECT_TRUE(names.insert(errc_name(code)).second) << errc_name(code);
  }
  EXPECT_EQ(errc_name(Errc::kPeerLost), "peer_lost");
  for (const std::uint32_t unknown : {17U, 65'536U, UINT32_MAX}) {
    EXPECT_EQ(errc_from_number(unknown), Errc::kInternal) << unknown;
  }
  EXPECT_EQ(errc_name(static_cast<Errc>(999)), "internal");
}

TEST(ResultTest, SystemErrorsHaveTheirCodeTextAndNumber) {
  const Error error = system_error(ENOMEM, "map segment 7");
  EXPECT_EQ(error.message, "map segment 7: Cannot allocate memory (12)");
  EXPECT_EQ(error.code, Errc::kResourceExhausted);
  EXPECT_EQ(error.rank, kNoRank);
  struct Case {
    int number;
    Errc code;
  };
  for (const auto& [number, code] : {Case{ENOENT, Errc::kNotFound},
                                     {EEXIST, Errc::kAlreadyExists},
                                     {EACCES, Errc::kPermissionDenied},
                                     {EMFILE, Errc::kResourceExhausted},
                                     {EINVAL, Errc::kInvalidArgument},
                                     {ETIMEDOUT, Errc::kDeadlineExceeded},
                                     {ECONNREFUSED, Errc::kUnavailable},
                                     {ENOSYS, Errc::kUnsupported},
                                     {EIO, Errc::kInternal},
                                     {0, Errc::kInternal}}) {
    EXPECT_EQ(errc_from_errno(number), code) << number;
  }
}

TEST(ExhaustionTest, MemoryAskedForInVainIsAnError) {
  const auto read = [](std::size_t bytes) {
    return within_memory("a file", [&]() -> Result<std::size_t> {
      if (bytes > 10) throw std::bad_alloc();
      return std::vector<int>(bytes).size() + std::string(bytes == 7 ? SIZE_MAX : 1, 'x').size();
    });
  };
  EXPECT_EQ(*read(3), 4U);
  EXPECT_EQ(read(11).error().code, Errc::kResourceExhausted);
  EXPECT_EQ(read(7).error().message, "a file: not enough memory");  // no string is that long
}

}  // namespace
}  // namespace imex
