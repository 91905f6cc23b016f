#include "device_pointer.hpp"

#include <dlfcn.h>

#include <cstdint>

namespace imex::nccl {

namespace {

/// CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr)
using PointerGetAttribute = int (*)(void* data, int attribute, std::uint64_t pointer);
constexpr int kCudaSuccess = 0;
constexpr int kAttributeMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kMemoryTypeHost = 1;  // CU_MEMORYTYPE_HOST

PointerGetAttribute load() noexcept {
  // Never closed: the function is called for as long as the process lives.
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return nullptr;
  return reinterpret_cast<PointerGetAttribute>(::dlsym(driver, "cuPointerGetAttribute"));
}

}  // namespace

bool is_device_memory(const void* pointer) noexcept {
  static const PointerGetAttribute attribute_of = load();
  if (attribute_of == nullptr || pointer == nullptr) return false;
  unsigned type = kMemoryTypeHost;
  // Fails for host memory that CUDA has never heard of, and before cuInit(): both mean host.
  const int status =
      attribute_of(&type, kAttributeMemoryType, reinterpret_cast<std::uintptr_t>(pointer));
  return status == kCudaSuccess && type != kMemoryTypeHost;
}

}  // namespace imex::nccl
