// Packets without descriptors are the channel's every message: sending, receiving and finding none
// must not allocate. Counts the calls of this thread to operator new, which is replaced for the
// executable.
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "os/socket.hpp"

namespace {
thread_local std::size_t allocation_count = 0;
}  // namespace

// NOLINTBEGIN(misc-new-delete-overloads): the array and sized forms end up in these two
void* operator new(std::size_t bytes) {
  ++allocation_count;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
// NOLINTEND(misc-new-delete-overloads)

namespace imex::os {
namespace {

TEST(SocketAllocationTest, PacketsWithoutDescriptorsAllocateNothing) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd first(ends[0]);
  const UniqueFd second(ends[1]);
  std::array<std::byte, 256> frame{};
  const std::size_t before = allocation_count;
  const bool sent = send_packet(first.get(), frame).has_value();
  const bool received = receive_packet(second.get(), frame, true).has_value();
  const bool none = !receive_packet(second.get(), frame, false).has_value();
  const std::size_t after = allocation_count;
  EXPECT_TRUE(sent && received && none);
  EXPECT_EQ(after, before);
  const std::string counted(100, 'x');
  EXPECT_GT(allocation_count, after) << "the count works: " << counted.size();
}

}  // namespace
}  // namespace imex::os
