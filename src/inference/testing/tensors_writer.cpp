#include "inference/testing/tensors_writer.hpp"

#include <algorithm>
#include <bit>
#include <concepts>

#include <sodium.h>

namespace imex::inference::testing {

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::size_t kChunkBytes = 65'536;

template <std::integral T>
std::string number(T value) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): char may alias
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string sized(const std::string& text, bool wide) {
  return (wide ? number(static_cast<std::uint16_t>(text.size()))
               : number(static_cast<std::uint8_t>(text.size()))) +
         text;
}

std::string shape_of(const WrittenTensor& tensor) {
  std::string shape = number(static_cast<std::uint8_t>(tensor.shape.size()));
  for (const std::uint32_t size : tensor.shape) shape += number(size);
  return shape;
}

unsigned char* raw(std::string& text) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): unsigned char may alias
  return reinterpret_cast<unsigned char*>(text.data());
}

/// Encrypts `data` where it lies and returns the field that describes it.
std::string encrypt(std::string& data, const std::array<unsigned char, 32>& key) {
  if (data.empty()) return number(std::uint16_t{0});
  std::string nonce(24, '\x07');
  std::string macs;
  std::string first = nonce;
  for (std::size_t at = 0; at < data.size(); at += kChunkBytes) {
    std::string mac(16, '\0');
    const std::size_t bytes = std::min(kChunkBytes, data.size() - at);
    crypto_secretbox_detached(raw(data) + at, raw(mac), raw(data) + at, bytes, raw(nonce),
                              key.data());
    sodium_increment(raw(nonce), nonce.size());
    macs += mac;
  }
  const std::string chunked = number(std::uint16_t{2}) + number(std::uint64_t{kChunkBytes}) +
                              first + number(std::uint64_t{macs.size() / 16}) + macs;
  return number(std::uint16_t{1}) + number(std::uint64_t{chunked.size()}) + chunked;
}

}  // namespace

std::string write_tensors(const std::vector<WrittenTensor>& tensors, const TensorsForm& form) {
  std::string table;
  std::string records;
  std::size_t table_bytes = 0;
  for (const WrittenTensor& one : tensors) {
    table_bytes += 2 + one.name.size() + 1 + 1 + one.dtype.size() + 1 + 4 * one.shape.size() + 24;
  }
  std::uint64_t at = 73 + table_bytes;
  for (const WrittenTensor& one : tensors) {
    std::string data = one.data;
    const std::string crypt = form.key ? encrypt(data, *form.key) : std::string();
    const char kind = 2;
    std::string header = number(std::uint16_t{0}) + kind + sized(one.name, true) +
                         sized(one.dtype, false) + shape_of(one) + number(std::uint16_t{1}) +
                         number(std::uint8_t{0});
    if (form.key) header += number(std::uint64_t{crypt.size()}) + crypt;
    header += number(static_cast<std::int64_t>(data.size()));
    header.insert(0, number(std::uint64_t{header.size() + 8}));
    table += sized(one.name, true) + kind + sized(one.dtype, false) + shape_of(one) + number(at) +
             number(at + header.size()) + number(std::uint64_t{data.size()});
    records += header + data;
    at += header.size() + data.size();
  }
  std::string flags(32, '\0');
  if (form.key && form.version >= 4) flags[0] = 1;
  return "|TZR|" + number(form.version) + flags + number(std::uint64_t{0}) +
         number(std::uint64_t{0}) + number(std::uint64_t{tensors.size()}) +
         number(std::uint64_t{table.size()}) + table + records + number(std::uint64_t{0});
}

}  // namespace imex::inference::testing
