#include "inference/weights/packed_image.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "inference/testing/tiny_model.hpp"
#include "inference/weights/rank_weights.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Origin = PackedImage::Origin;

/// A model of 4 bits and a place for its image.
class PackedImageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    sizes_.hidden = 64;
    sizes_.feed_forward = 96;
    sizes_.vocabulary = 80;
    write(1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(unsigned seed) {
    sizes_.seed = seed;
    testing::write_tiny_gguf(path_, sizes_, TensorType::kQ41);
  }
  [[nodiscard]] PackedImage open(const std::string& directory, unsigned threads = 1) const {
    const auto model = ModelFile::open(path_);
    EXPECT_TRUE(model) << model.error().to_string();
    auto image = PackedImage::open(*model, path_, {directory, threads, {}});
    EXPECT_TRUE(image) << image.error().to_string();
    return std::move(*image);
  }
  [[nodiscard]] std::string image_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(images_)) return entry.path();
    return "";
  }
  static std::string query_of(const PackedImage& image) {
    const auto bytes = image.find({WeightRole::kQuery, 1});
    EXPECT_TRUE(bytes);
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }

  // Of this process alone: tests run side by side.
  std::string folder_ = ::testing::TempDir() + "/imex-packed-" + std::to_string(::getpid());
  std::string path_ = folder_ + "/model.gguf", images_ = folder_ + "/images";
  testing::TinyModel sizes_;
};

TEST_F(PackedImageTest, IsBuiltOnceAndTakenFromThenOn) {
  const PackedImage built = open(images_, 3);
  EXPECT_EQ(built.origin(), Origin::kBuilt);
  EXPECT_THAT(built.why(), IsEmpty());
  const PackedImage taken = open(images_);
  EXPECT_EQ(taken.origin(), Origin::kCache);
  EXPECT_EQ(query_of(taken), query_of(built));
  EXPECT_EQ(std::filesystem::status(image_file()).permissions(), std::filesystem::perms(0600));
}

TEST_F(PackedImageTest, NormsAndEmbeddingsAreNotPacked) {
  const PackedImage image = open(images_);
  EXPECT_FALSE(image.find({WeightRole::kAttentionNorm, 0}));
  EXPECT_FALSE(image.find({WeightRole::kEmbedding, 0}));
  EXPECT_TRUE(image.find({WeightRole::kHead, 0}));
}

TEST_F(PackedImageTest, AnotherModelUnderTheSameNameIsPackedAnew) {
  const std::string before = query_of(open(images_));
  write(2);
  const PackedImage image = open(images_);
  EXPECT_EQ(image.origin(), Origin::kBuilt);
  EXPECT_NE(query_of(image), before);
}

TEST_F(PackedImageTest, ADamagedImageIsBuiltAnewWhereverTheDamageIs) {
  const std::string whole = query_of(open(images_));
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(image_file()));
  for (const std::streamoff at :
       {std::streamoff{9}, std::streamoff{70}, std::streamoff{4096}, size / 2, size - 1}) {
    {
      std::fstream file(image_file(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const char byte = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 0x10));
    }
    const PackedImage image = open(images_);
    EXPECT_EQ(image.origin(), Origin::kBuilt) << at;
    EXPECT_EQ(query_of(image), whole) << at;
    EXPECT_EQ(open(images_).origin(), Origin::kCache) << at;
  }
  std::filesystem::resize_file(image_file(), 100);
  EXPECT_EQ(open(images_).origin(), Origin::kBuilt);
}

TEST_F(PackedImageTest, WithoutAPlaceItLivesInMemory) {
  const std::string kept = query_of(open(images_));
  const PackedImage image = open("");
  EXPECT_EQ(image.origin(), Origin::kMemory);
  EXPECT_THAT(image.why(), HasSubstr("no directory"));
  EXPECT_EQ(query_of(image), kept);
  const PackedImage blocked = open(path_ + "/images");  // below a file
  EXPECT_EQ(blocked.origin(), Origin::kMemory);
  EXPECT_FALSE(blocked.why().empty());
}

TEST_F(PackedImageTest, AFolderThatOthersMayWriteToIsNotUsed) {
  std::filesystem::create_directories(images_);
  std::filesystem::permissions(images_, std::filesystem::perms(0777));
  EXPECT_EQ(open(images_).origin(), Origin::kMemory);
}

TEST_F(PackedImageTest, AModelOfPlainTypesNeedsNone) {
  testing::write_tiny_gguf(path_, sizes_, TensorType::kF16);
  const PackedImage image = open(images_);
  EXPECT_EQ(image.origin(), Origin::kNone);
  EXPECT_EQ(image.size(), 0U);
}

}  // namespace
}  // namespace imex::inference
