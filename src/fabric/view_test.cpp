#include "fabric/view.hpp"

#include <fstream>
#include <set>

#include <gmock/gmock.h>

#include "fabric/file_view.hpp"
#include "fabric/simulated_view.hpp"
#include "os/file.hpp"

namespace imex::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Uuid id(unsigned char last) {
  Uuid uuid;
  uuid.bytes[15] = std::byte{last};
  return uuid;
}

TEST(SimulatedView, IsTheSameForTheSameNodeAndSharesThePartitionOfItsDomain) {
  const auto first = SimulatedView(id(1), 0, 4).gpus();
  EXPECT_EQ(first, SimulatedView(id(1), 0, 4).gpus());
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first[3].index, 3U);
  EXPECT_EQ(first[0].partition.clique_id, 32'766U);
  EXPECT_EQ(first[0].partition, SimulatedView(id(1), 7, 1).gpus()[0].partition);
  EXPECT_NE(first[0].partition, SimulatedView(id(2), 0, 1).gpus()[0].partition);
  EXPECT_NE(first[0].partition.domain_uuid, id(1));
}

TEST(SimulatedView, UidsDifferAcrossNodesAndIndexes) {
  std::set<std::uint64_t> uids;
  for (std::uint16_t node = 0; node < 72; ++node) {
    for (const Gpu& gpu : SimulatedView(id(1), node, 8).gpus()) uids.insert(gpu.uid);
  }
  EXPECT_EQ(uids.size(), 72U * 8U);
  EXPECT_FALSE(uids.contains(0));
}

constexpr const char* kTwo = R"(
[[gpu]]
index = 1
uid = "0xffffffffffffffff"
domain_uuid = "00000000-0000-0000-0000-000000000001"
clique_id = 5
attached = false

[[gpu]]
index = 0
uid = 0x10
domain_uuid = "00000000000000000000000000000001"
clique_id = 5
)";

TEST(FabricFile, IsReadInOrderOfIndex) {
  const auto gpus = parse_fabric_file(kTwo, "f");
  ASSERT_TRUE(gpus) << gpus.error().to_string();
  ASSERT_EQ(gpus->size(), 2U);
  EXPECT_EQ((*gpus)[0], (Gpu{0, 0x10, {id(1), 5}, true}));
  EXPECT_EQ((*gpus)[1], (Gpu{1, UINT64_MAX, {id(1), 5}, false}));
  EXPECT_TRUE(parse_fabric_file("", "f")->empty());
}

struct BadFile {
  std::string text, message;
};

TEST(FabricFile, SaysWhereItIsWrong) {
  const std::string good = "[[gpu]]\nindex=0\nuid=1\ndomain_uuid=\"" + id(1).to_string() + "\"\n";
  const std::vector<BadFile> files = {
      {"[[gpu", "f:1:"},
      {"gpu = 3", "f:1: gpu"},
      {"other = 3", "f:1: other"},
      {"gpu = [1]", "want a table"},
      {good, "clique_id: missing"},
      {good + "clique_id = -1", "f:5: clique_id"},
      {good + "clique_id = 1\nclick = 2", "f:6: click: unknown key"},
      {good + "clique_id = 1\nattached = 1", "f:6: attached"},
      {"[[gpu]]\nindex = 256", "f:2: index"},
      {"[[gpu]]\nindex = 0\nuid = 0", "f:3: uid"},
      {"[[gpu]]\nindex = 0\nuid = \"0xg\"", "f:3: uid"},
      {"[[gpu]]\nindex = 0\nuid = 1\ndomain_uuid = \"12\"", "f:4: domain_uuid"},
      {good + "clique_id = 1\n" + good + "clique_id = 1\n", "index 0 twice"},
  };
  for (const BadFile& file : files) {
    const auto gpus = parse_fabric_file(file.text, "f");
    ASSERT_FALSE(gpus) << file.text;
    EXPECT_EQ(gpus.error().code, Errc::kInvalidArgument);
    EXPECT_THAT(gpus.error().message, HasSubstr(file.message)) << file.text;
  }
}

class FileViewTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("imex-fabric-");
    ASSERT_TRUE(made);
    directory_ = *made;
    path_ = directory_ + "/fabric.toml";
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(directory_)); }
  /// As whoever cares about readers writes: beside, then renamed.
  void write(const std::string& text) {
    ASSERT_TRUE(os::replace_file(path_, std::as_bytes(std::span(text)), 0644));
  }
  Result<std::unique_ptr<FileView>> open() {
    return FileView::open(loop_, path_, [this](const Error& e) { errors_.push_back(e.message); });
  }

  net::EventLoop loop_;
  std::string directory_, path_;
  std::vector<std::string> errors_;
};

TEST_F(FileViewTest, TellsChangesAndKeepsTheStateOverABadFile) {
  write(kTwo);
  auto view = open();
  ASSERT_TRUE(view) << view.error().to_string();
  std::vector<std::vector<Gpu>> changes;
  (*view)->subscribe([&](const std::vector<Gpu>& gpus) { changes.push_back(gpus); });
  std::string moved = kTwo;
  moved.replace(moved.rfind("clique_id = 5"), 13, "clique_id = 6");
  write(moved);
  ASSERT_TRUE(loop_.run_until([&] { return !changes.empty(); }, loop_.now() + seconds(10)));
  EXPECT_EQ(changes.back()[0].partition.clique_id, 6U);
  write("[[gpu]]\nindex = x");
  ASSERT_TRUE(loop_.run_until([&] { return !errors_.empty(); }, loop_.now() + seconds(10)));
  EXPECT_THAT(errors_.front(), HasSubstr("fabric.toml:2"));
  EXPECT_EQ((*view)->gpus()[0].partition.clique_id, 6U);
  EXPECT_EQ(changes.size(), 1U);
  write(kTwo);
  ASSERT_TRUE(loop_.run_until([&] { return changes.size() == 2; }, loop_.now() + seconds(10)));
  EXPECT_EQ((*view)->gpus()[0].partition.clique_id, 5U);
}

TEST_F(FileViewTest, ABadFirstVersionIsAnError) {
  EXPECT_EQ(open().error().code, Errc::kNotFound);
  write("nonsense");
  EXPECT_EQ(open().error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace imex::fabric
