/// The latest lines in memory; private to this room.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace imex::log {

/// Bounded by bytes: the oldest lines go first. Not thread-safe.
class Ring {
 public:
  explicit Ring(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void push(std::string line) {
    line += '\n';
    if (line.size() > bytes_max_) return;
    bytes_ += line.size();
    lines_.push_back(std::move(line));
    while (bytes_ > bytes_max_) {
      bytes_ -= lines_.front().size();
      lines_.pop_front();
    }
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    all.reserve(bytes_);
    for (const std::string& line : lines_) all += line;
    return all;
  }

 private:
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::deque<std::string> lines_;
};

}  // namespace imex::log
