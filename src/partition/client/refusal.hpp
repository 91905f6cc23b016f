/// What an answer other than 2xx means to the caller.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "net/http/client.hpp"

namespace imex::partition::client {

/// `what` names the request: "create partition 'training'".
[[nodiscard]] Error refusal(const net::http::ClientResponse& answer, net::http::Method method,
                            std::string_view what);

}  // namespace imex::partition::client
