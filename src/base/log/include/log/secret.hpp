/// Text that no log, listing or error message may show.
#pragma once

#include <ostream>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace imex::log {

/// Prints as *** wherever it is printed; the text itself only through reveal(). The bytes are wiped
/// when it is destroyed.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret& other) {
    if (this != &other) {
      wipe();
      text_ = other.text_;
    }
    return *this;
  }
  ~Secret() { wipe(); }

  [[nodiscard]] const std::string& reveal() const noexcept { return text_; }
  [[nodiscard]] bool empty() const noexcept { return text_.empty(); }

  friend std::ostream& operator<<(std::ostream& out, const Secret& /*secret*/) {
    return out << "***";
  }

 private:
  void wipe() noexcept {
    // Volatile: a plain store before the end of life may be left out by the compiler.
    for (volatile char& c : text_) c = '\0';
  }
  std::string text_;
};

}  // namespace imex::log

template <>
struct fmt::formatter<imex::log::Secret> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const imex::log::Secret& /*secret*/, Context& context) const {
    return fmt::formatter<fmt::string_view>::format("***", context);
  }
};
