#include "fd_table.hpp"

#include <fcntl.h>

#include <string>

#include <gtest/gtest.h>

#include "os/memory.hpp"

namespace imex::domain {
namespace {

os::UniqueFd memory_of(const std::string& name) { return os::make_memfd(name, 4096).value(); }
/// As it arrives with another export of the same allocation.
os::UniqueFd again(const os::UniqueFd& fd) { return fd.duplicate().value(); }
std::uint64_t inode_of(int fd) { return os::file_facts(fd).value().inode; }

TEST(FdTableTest, MemoryThatComesAgainIsHeldOnceUntilItsLastTokenIsReleased) {
  FdTable table;
  const os::UniqueFd memory = memory_of("memory");
  std::vector<FdToken> tokens;
  for (int i = 0; i != 100; ++i) tokens.push_back(table.add(again(memory)));
  EXPECT_EQ(table.size(), 1U);
  const int held = table.get(tokens.front());
  while (!tokens.empty()) {
    EXPECT_EQ(table.get(tokens.back()), held);
    EXPECT_EQ(inode_of(held), inode_of(memory.get()));
    table.release(tokens.back());
    EXPECT_EQ(table.get(tokens.back()), -1);
    tokens.pop_back();
  }
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(::fcntl(held, F_GETFD), -1) << "the last release closes it";
  const FdToken later = table.add(again(memory));
  EXPECT_EQ(inode_of(table.get(later)), inode_of(memory.get()));
}

TEST(FdTableTest, OtherMemoryIsNeverShared) {
  FdTable table;
  const os::UniqueFd one = memory_of("same name"), two = memory_of("same name");
  const FdToken first = table.add(again(one)), second = table.add(again(two));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(inode_of(table.get(first)), inode_of(one.get()));
  EXPECT_EQ(inode_of(table.get(second)), inode_of(two.get()));
}

// Whoever exports memory for reading must not have it handed on for writing.
TEST(FdTableTest, MemoryOpenedAnewForReadingStaysApart) {
  FdTable table;
  const os::UniqueFd memory = memory_of("memory");
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  os::UniqueFd readable(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(readable);
  const FdToken writer = table.add(again(memory)), reader = table.add(std::move(readable));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(::fcntl(table.get(writer), F_GETFL) & O_ACCMODE, O_RDWR);
  EXPECT_EQ(::fcntl(table.get(reader), F_GETFL) & O_ACCMODE, O_RDONLY);
  table.release(writer);
  EXPECT_EQ(::fcntl(table.get(reader), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(table.size(), 1U);
}

TEST(FdTableTest, WhatIsNoSealedMemoryIsHeldAsItComes) {
  FdTable table;
  const os::UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  const FdToken first = table.add(again(file)), second = table.add(again(file));
  EXPECT_NE(table.get(first), table.get(second));
  EXPECT_EQ(table.size(), 2U);
  table.release(first);
  EXPECT_NE(::fcntl(table.get(second), F_GETFD), -1);
}

TEST(FdTableTest, TokensAreNeverReused) {
  FdTable table;
  const os::UniqueFd memory = memory_of("memory");
  const FdToken first = table.add(again(memory));
  table.release(first);
  table.release(first);
  EXPECT_NE(table.add(again(memory)), first);
  EXPECT_EQ(table.get(first), -1);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace imex::domain
