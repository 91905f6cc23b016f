/* Stands in for libcuda.so.1: says that one range of memory lies on a device. */
#include <stdint.h>

__attribute__((visibility("default"))) void fake_cuda_mark(const void* begin, uint64_t bytes,
                                                           int initialised);
__attribute__((visibility("default"))) int cuPointerGetAttribute(void* data, int attribute,
                                                                 uint64_t pointer);

static uint64_t marked_begin, marked_bytes;
static int is_initialised;

void fake_cuda_mark(const void* begin, uint64_t bytes, int initialised) {
  marked_begin = (uintptr_t)begin;
  marked_bytes = bytes;
  is_initialised = initialised;
}

int cuPointerGetAttribute(void* data, int attribute, uint64_t pointer) {
  const int invalid_value = 1, not_initialised = 3, memory_type = 2;
  if (!is_initialised) return not_initialised;
  if (attribute != memory_type || pointer - marked_begin >= marked_bytes) return invalid_value;
  *(unsigned*)data = 2; /* CU_MEMORYTYPE_DEVICE */
  return 0;
}
