/// Several communicators out of one.
#pragma once

#include <optional>

#include <imex/communicator.hpp>

namespace imex::nccl {

/// Collective: ranks of one color get a communicator of their own, in the order of their keys and,
/// where these are equal, of their ranks. A negative color: none.
[[nodiscard]] Result<std::optional<Communicator>> split(Communicator& all, int color, int key);

}  // namespace imex::nccl
