/// Tells memory of a CUDA device from host memory, on machines that have CUDA's driver.
#pragma once

namespace imex::nccl {

/// Without libcuda.so.1, or before the process has initialised it, no pointer is.
[[nodiscard]] bool is_device_memory(const void* pointer) noexcept;

}  // namespace imex::nccl
