/// Where the parts of the daemon say what happened. Levels: 2 error, 3 warning, 4 info, 5 debug.
#pragma once

#include <functional>
#include <string_view>

namespace imex::domain {

using LogSink = std::function<void(int level, std::string_view text)>;

inline constexpr int kLogError = 2, kLogWarning = 3, kLogInfo = 4, kLogDebug = 5;

}  // namespace imex::domain
