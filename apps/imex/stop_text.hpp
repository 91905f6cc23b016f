/// Ends a text at the first of several strings, though it comes in pieces.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace imex::cli {

class StopText {
 public:
  /// Empty strings are not looked for.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase(stops_, std::string());
  }

  /// What of the text so far can be given out: nothing of it can begin a string that ends it.
  [[nodiscard]] std::string add(std::string_view piece) {
    if (found_) return {};
    held_ += piece;
    std::size_t end = std::string::npos;
    for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
    found_ = end != std::string::npos;
    if (!found_) end = held_.size() - longest_beginning();
    std::string out = held_.substr(0, end);
    held_.erase(0, end);
    return out;
  }
  /// The last piece; all that was held back comes out.
  [[nodiscard]] std::string finish(std::string_view piece) {
    std::string out = add(piece);
    if (!found_) out += held_;
    held_.clear();
    return out;
  }
  [[nodiscard]] bool found() const noexcept { return found_; }

 private:
  /// Length of the longest end of the text that a string to look for begins with.
  [[nodiscard]] std::size_t longest_beginning() const {
    std::size_t longest = 0;
    for (const std::string& stop : stops_) {
      for (std::size_t length = std::min(stop.size() - 1, held_.size()); length > longest;
           --length) {
        if (held_.ends_with(std::string_view(stop).substr(0, length))) longest = length;
      }
    }
    return longest;
  }

  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace imex::cli
