/// Keys and passphrases of models, from the files that options name.
#pragma once

#include "commands.hpp"
#include "inference/model/model_file.hpp"

namespace imex::cli {

/// Errors: those of reading; kInvalidArgument (no key of 32 bytes).
[[nodiscard]] Result<inference::ModelSecret> read_secret(const SecretFiles& files);

}  // namespace imex::cli
