/// What the tests of this room share: a folder that goes away, and a check for leaked descriptors.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "os/file.hpp"

namespace imex::os {

/// Numbers of the descriptors that are open in this process.
inline std::set<int> open_descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    found.insert(std::stoi(entry.path().filename().string()));
  }
  // The iterator's own descriptor is listed as well and closed by now.
  std::set<int> open;
  for (const int fd : found) {
    std::error_code error;
    if (std::filesystem::is_symlink("/proc/self/fd/" + std::to_string(fd), error)) open.insert(fd);
  }
  return open;
}

/// Every test gets a fresh folder; one that leaves a descriptor open fails.
class OsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = make_temporary_directory("imex-os");
    ASSERT_TRUE(made) << made.error().to_string();
    folder_ = *made;
    before_ = open_descriptors();
  }
  void TearDown() override {
    EXPECT_EQ(open_descriptors(), before_) << "descriptors leaked";
    EXPECT_TRUE(remove_tree(folder_));
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
  std::set<int> before_;
};

}  // namespace imex::os
