/// The requests of the control socket: one JSON object in, one out. docs/formats/rack-control.md.
#pragma once

#include <string>
#include <string_view>

#include "rack_state.hpp"

namespace imex::rack {

/// Never fails: what is wrong with a request stands in the answer. No newline at the end.
[[nodiscard]] std::string answer_control(Rack& rack, std::string_view request);
/// "status" without the rest of the frame: also the ready line.
[[nodiscard]] std::string status_line(Rack& rack, std::uint16_t manager_port);

}  // namespace imex::rack
