/// What the files of the C API of communicators share: arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "c_support.hpp"

namespace imex::c {

inline int done(const Result<void>& result) { return result ? IMEX_OK : failed(result.error()); }

/// A number that C calls an enumeration may be any. 255: none of ours.
inline DataType to_type(imex_data_type type) {
  const auto number = static_cast<unsigned>(type);
  return static_cast<DataType>(number < kDataTypeCount ? number : 255);
}
inline ReduceOp to_op(imex_reduce_op op) {
  const auto number = static_cast<unsigned>(op);
  return static_cast<ReduceOp>(number < kReduceOpCount ? number : 255);
}

/// `parts` times `bytes` can be addressed, at a place that is one.
inline int check_vector(const void* data, std::size_t bytes, std::uint32_t parts,
                        const char* what) {
  constexpr std::size_t kBytesMax = std::numeric_limits<std::ptrdiff_t>::max();
  if (bytes > kBytesMax / parts) {
    return failed({Errc::kInvalidArgument,
                   std::to_string(parts) + " times " + std::to_string(bytes) + " bytes"});
  }
  return bytes != 0 && data == nullptr ? missing(what) : int{IMEX_OK};
}

inline int check_both(const imex_communicator* communicator, const void* in, std::uint32_t in_parts,
                      const void* out, std::uint32_t out_parts, std::size_t bytes) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(in, bytes, in_parts, "in"); code != IMEX_OK) return code;
  return check_vector(out, bytes, out_parts, "out");
}

}  // namespace imex::c
