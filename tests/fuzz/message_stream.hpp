/// Input of a fuzz target as a row of messages: each with its length before it, two bytes
/// little-endian; the last one may be cut short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <google/protobuf/stubs/logging.h>

namespace imex::fuzz {

class MessageStream {
 public:
  MessageStream(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  [[nodiscard]] bool empty() const noexcept { return rest_.size() < 2; }
  /// Not when empty.
  [[nodiscard]] std::span<const std::uint8_t> next() {
    const std::size_t wanted = rest_[0] + std::size_t{256} * rest_[1];
    const auto message = rest_.subspan(2, std::min(wanted, rest_.size() - 2));
    rest_ = rest_.subspan(2 + message.size());
    return message;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

/// For inputs of several types: take(choice, message) for each that has a first byte, the choice.
template <class Take>
void for_each_choice(const std::uint8_t* data, std::size_t size, const Take& take) {
  MessageStream stream(data, size);
  while (!stream.empty()) {
    const auto message = stream.next();
    if (!message.empty()) take(message[0], message.subspan(1));
  }
}

/// Nothing in it draws on a terminal.
inline bool is_plain(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

/// False: the bytes are no message of that type.
template <class Message>
bool parse(Message& message, std::span<const std::uint8_t> bytes) {
  // The shipped programs are silent as well: protobuf would write a line for each bad text.
  [[maybe_unused]] static auto* const former = google::protobuf::SetLogHandler(nullptr);
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace imex::fuzz
