#include "os/peer.hpp"

#include <unistd.h>

#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "os/memory.hpp"
#include "os/thread.hpp"

namespace imex::os {
namespace {

TEST(PeerTest, OpensTheFileBehindADescriptor) {
  auto memory = make_memfd("peer-test", page_bytes());
  ASSERT_TRUE(memory);
  auto opened = open_peer_fd(process_id(), memory->get());
  ASSERT_TRUE(opened) << opened.error().to_string();
  EXPECT_EQ(file_facts(opened->get())->inode, file_facts(memory->get())->inode);
}

TEST(PeerTest, SaysThatThereIsNoSuchDescriptor) {
  auto memory = make_memfd("peer-test", page_bytes());
  ASSERT_TRUE(memory);
  const int closed = memory->get();
  memory->reset();
  auto opened = open_peer_fd(process_id(), closed);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kNotFound);
}

TEST(PeerTest, ReadsMemoryOrSaysWhyNot) {
  std::array<char, 64> source{};
  std::strcpy(source.data(), "from there");
  std::array<std::byte, 64> target{};
  auto read = read_peer_memory(process_id(), reinterpret_cast<std::uintptr_t>(source.data()),
                               target.data(), target.size());
  if (!read && read.error().code == Errc::kPermissionDenied) {
    GTEST_SKIP() << read.error().to_string();
  }
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(std::memcmp(source.data(), target.data(), target.size()), 0);

  read = read_peer_memory(process_id(), 16, target.data(), target.size());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace imex::os
