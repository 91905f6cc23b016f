/// What the files of the C API share: the opaque objects, errors of the thread, option structures.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include <imex/imex.h>
#include <imex/imex.hpp>

struct imex_allocation {
  imex::Allocation value;
};
struct imex_session {
  imex::Session value;
};
struct imex_export {
  imex::Export value;
};
struct imex_import {
  imex::Import value;
};
struct imex_operation {
  imex::Import::Operation value;
};
struct imex_rendezvous {
  imex::Rendezvous value;
};
struct imex_communicator {
  imex::Communicator value;
};
struct imex_request {
  imex::Request value;
};

namespace imex::c {

/// Keeps the error for imex_last_error() of this thread; returns its number.
int failed(Error error);

/// The caller's options over our defaults, as far as both sides know them. `defaults` is of the
/// present release; `first_bytes` is what the first release had. Errors: kInvalidArgument for a
/// size that no release had; kUnsupported for an option that is set and that this release does not
/// know.
Result<void> read_options(void* defaults, std::size_t bytes, std::size_t first_bytes,
                          const void* given);

template <class Options>
Result<Options> options_or_default(Options defaults, const Options* given) {
  static_assert(offsetof(Options, struct_size) == 0);
  if (given == nullptr) return defaults;
  auto read = read_options(&defaults, sizeof(Options), sizeof(Options), given);
  if (!read) return fail(std::move(read).error());
  return defaults;
}

/// Null: the defaults. Errors: as read_options(); kInvalidArgument for pages that are none.
Result<AllocationOptions> to_allocation_options(const imex_allocation_options* given);

/// A null pointer where an object belongs.
int missing(const char* what);

inline AbortScope to_scope(imex_scope scope) {
  return {static_cast<AbortCell*>(scope.cell), scope.index};
}
/// The cell is written only through AbortScope::abort(), which is no constant function.
inline imex_scope from_scope(AbortScope scope) {
  return {const_cast<AbortCell*>(scope.cell()), scope.index(), 0};
}

/// Runs over the result: `*out` gets a new object on success.
template <class Object, class T>
int give(Result<T> result, Object** out) {
  if (!result) return failed(std::move(result).error());
  *out = new Object{std::move(*result)};
  return IMEX_OK;
}

}  // namespace imex::c
