/// Where bytes of strangers are read: memory that they ask for and the machine does not have is an
/// error of theirs, not the end of the process.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace imex {

/// Calls `read` and gives its result; running out of memory inside becomes kResourceExhausted with
/// `what` in the message. Only for public entrances of readers: elsewhere it terminates.
template <class Read>
[[nodiscard]] auto within_memory(std::string_view what, Read&& read) -> decltype(read()) {
  try {
    return std::forward<Read>(read)();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {  // more elements than any container can hold
  }
  return fail(Errc::kResourceExhausted, std::string(what) + ": not enough memory",
              "the file asks for more than this machine gives; is it meant to be that large?");
}

}  // namespace imex
