/// Where the ranks of a benchmark leave their flight recordings: nowhere for long.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "os/fd.hpp"

namespace imex::bench {

/// A folder that $IMEX_RECORD_DIR names, for this process and those that it forks. It goes with
/// the last of them, also when all are killed: a process of its own waits for that.
class RecordFolder {
 public:
  [[nodiscard]] static Result<RecordFolder> create();
  RecordFolder(RecordFolder&& other) noexcept;
  RecordFolder& operator=(RecordFolder&&) = delete;
  ~RecordFolder();

 private:
  RecordFolder(os::UniqueFd held, std::int32_t keeper) noexcept;
  os::UniqueFd held_;  // the end of a pipe: closed in all processes, the keeper clears up
  std::int32_t keeper_;
};

}  // namespace imex::bench
