/// Listening sockets that outlive an upgrade by exec.
///
/// A container that has a channel's socket file bind-mounted holds that very file: a successor that
/// bound a new socket under the same name would be out of its reach. So the old program leaves its
/// listeners open and tells the new one their names; who connects meanwhile waits in their queues.
#pragma once

#include <map>
#include <string>

#include "os/fd.hpp"

namespace imex::domain {

/// By absolute path of the socket file.
using ListeningSockets = std::map<std::string, os::UniqueFd>;

/// Right before exec: leaves the sockets open in the next program and notes them in its
/// environment.
[[nodiscard]] Result<void> leave_to_successor(ListeningSockets sockets);

/// At the start: what the program before left, nothing after an ordinary start. Descriptors that
/// are no listening Unix sockets are not taken.
[[nodiscard]] ListeningSockets take_from_predecessor();

}  // namespace imex::domain
