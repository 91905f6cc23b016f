/// The two descriptions of a tensor in a `.tensors` file: its line in the table at the front, and
/// the header of its record. They must agree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "inference/format/tensors.hpp"

namespace imex::inference {

/// What both descriptions say.
struct TensorsDescription {
  std::span<const std::byte> name, dtype;  ///< as stored
  std::uint8_t kind = 0;
  std::vector<std::uint32_t> shape;

  [[nodiscard]] bool same_as(const TensorsDescription& other) const noexcept;
};

/// A line of the table. Offsets are absolute, unchecked.
struct TensorsLine {
  TensorsDescription description;
  std::uint64_t header_offset = 0, data_offset = 0, data_bytes = 0;
};
[[nodiscard]] Result<TensorsLine> read_tensors_line(ByteReader& table);

struct TensorsFileFacts {
  std::uint32_t version = 0;
  bool encrypted = false;
};
/// The record whose header is `header`, completely; everything but the data is filled in.
[[nodiscard]] Result<TensorsEntry> read_tensors_record(std::span<const std::byte> header,
                                                       const TensorsLine& line,
                                                       const TensorsFileFacts& facts);

/// A key of a dictionary, or an index into a list, whose text is "[3]".
struct TensorsPathPart {
  bool index = false;
  std::string text;

  friend auto operator<=>(const TensorsPathPart&, const TensorsPathPart&) = default;
};

/// The stored name as one text: path components are joined by dots.
struct TensorsName {
  std::string text;
  std::vector<TensorsPathPart> path;  ///< empty for a plain name
};
/// `kind` as stored, unchecked. Errors: kDataLoss (a path that is none, has more than 64 parts, or
/// names what is not of a state dictionary).
[[nodiscard]] Result<TensorsName> read_tensors_name(std::span<const std::byte> stored,
                                                    std::uint8_t kind);

/// Errors: kDataLoss (equal names, also of a plain name and a path, or one path leads through
/// another).
[[nodiscard]] Result<void> check_tensors_names(const std::vector<TensorsName>& names);

/// Numpy's or torch's name of an element type. Errors: kUnsupported.
[[nodiscard]] Result<TensorType> read_tensors_type(std::span<const std::byte> stored);
/// The other way; empty for types that neither has.
[[nodiscard]] std::string_view tensors_type_name(TensorType type) noexcept;

/// Errors: kDataLoss, kUnsupported.
[[nodiscard]] Result<TensorsCipher> read_tensors_cipher(std::span<const std::byte> stored,
                                                        std::uint64_t data_bytes);

}  // namespace imex::inference
