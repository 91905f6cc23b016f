/// Text of KEY=VALUE lines, the form of nvidia-imex's configuration file (imex-service section 4).
///
/// One assignment per line. Blanks around key and value are cut, carriage returns at line ends as
/// well. Blank lines and lines that start with # are skipped. There are no quotes, no sections and
/// no comments behind a value. `KEY=` assigns the empty text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace imex::config {

inline constexpr std::size_t kValueCharactersMax = 256;
inline constexpr std::size_t kTextBytesMax = 1U << 20U;

struct Assignment {
  std::string key, value;
  std::size_t line_number = 0;  ///< from 1
};

/// Something to tell the user, and where it is.
struct Problem {
  std::string where;  ///< "FILE:LINE", "option --port", "environment IMEX_X_LEASE"
  std::string key;    ///< empty: the line has none
  std::string message;

  /// "WHERE: KEY: MESSAGE"
  [[nodiscard]] std::string to_string() const;
};

/// Everything that loading found, so that a user mends a file in one go. Bounded: what comes after
/// kKept problems of a kind is only counted.
class Findings {
 public:
  static constexpr std::size_t kKept = 100;

  void error(Problem problem) { keep(errors_, errors_left_out_, std::move(problem)); }
  void warning(Problem problem) { keep(warnings_, warnings_left_out_, std::move(problem)); }
  [[nodiscard]] const std::vector<Problem>& errors() const noexcept { return errors_; }
  [[nodiscard]] const std::vector<Problem>& warnings() const noexcept { return warnings_; }

  /// kInvalidArgument with every error on a line of its own, or success.
  [[nodiscard]] Result<void> check() const;
  /// One line per warning.
  [[nodiscard]] std::vector<std::string> warning_lines() const;

 private:
  static void keep(std::vector<Problem>& list, std::size_t& left_out, Problem problem);
  std::vector<Problem> errors_, warnings_;
  std::size_t errors_left_out_ = 0, warnings_left_out_ = 0;
};

/// The assignments in the order of the text, each key once: of two for one key the later counts,
/// with a warning. Lines that are no assignment become errors. `file` names the text in messages.
[[nodiscard]] std::vector<Assignment> parse_key_values(std::string_view text, std::string_view file,
                                                       Findings& findings);

}  // namespace imex::config
