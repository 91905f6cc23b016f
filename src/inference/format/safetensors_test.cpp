#include "inference/format/safetensors.hpp"

#include <bit>
#include <cstring>

#include <gmock/gmock.h>

#include "inference/testing/data.hpp"
#include "os/file.hpp"

namespace imex::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::byte> with_header(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  std::vector<std::byte> bytes(sizeof size + size + data);
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + sizeof size, header.data(), size);
  return bytes;
}

std::string refusal(const std::string& header, std::size_t data) {
  const auto bytes = with_header(header, data);
  const auto file = SafetensorsFile::parse(bytes);
  return file ? "was read" : file.error().message;
}

const Tensor* find(const SafetensorsFile& file, std::string_view name) {
  for (const Tensor& tensor : file.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(SafetensorsTest, ReadsAFileOfTheOriginalWriter) {
  const auto file = SafetensorsFile::open(testing::test_data("weights/types.safetensors"));
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const Tensor* const a = find(*file, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_THAT(a->shape, ElementsAre(2, 3));
  float last = 0;
  std::memcpy(&last, a->bytes.data() + 20, sizeof last);
  EXPECT_EQ(last, 5.0F);
  EXPECT_THAT(find(*file, "b.c")->shape, IsEmpty());
  EXPECT_THAT(find(*file, "b.c")->bytes, SizeIs(8));
  EXPECT_THAT(find(*file, "empty")->bytes, IsEmpty());
  EXPECT_EQ(find(*file, "yes")->type, TensorType::kBool);
}

TEST(SafetensorsTest, ReadsTheSharedModel) {
  IMEX_NEEDS_SHARED_MODEL("tinystories-656k/model.safetensors");
  const auto files = open_safetensors_folder(testing::shared_model("tinystories-656k"));
  ASSERT_TRUE(files) << files.error().to_string();
  ASSERT_THAT(*files, SizeIs(1));
  EXPECT_THAT(files->front().tensors(), SizeIs(20));
  EXPECT_EQ(files->front().metadata().at("model.embed_tokens.weight"), "lm_head.weight");
}

TEST(SafetensorsTest, DataIsCoveredWithoutHolesOrOverlaps) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const auto b = [](const char* offsets) {
    return std::string(R"("b":{"dtype":"U8","shape":[4],"data_offsets":)") + offsets + "}";
  };
  EXPECT_EQ(refusal("{" + b("[8,12]") + "," + a + "}", 12), "was read");
  EXPECT_THAT(refusal("{" + a + "," + b("[7,11]") + "}", 11), HasSubstr("begins at byte 7"));
  EXPECT_THAT(refusal("{" + a + "," + b("[9,13]") + "}", 13), HasSubstr("begins at byte 9"));
  EXPECT_THAT(refusal("{" + a + "}", 9), HasSubstr("take 8 bytes, the file has 9"));
  EXPECT_THAT(refusal("{" + a + "}", 7), HasSubstr("take 8 bytes, the file has 7"));
}

TEST(SafetensorsTest, WhatIsWrongIsNamed) {
  const auto one = [](const char* fields) { return std::string(R"({"t":{)") + fields + "}}"; };
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8),
              HasSubstr("takes 12 bytes, not 8"));
  EXPECT_THAT(refusal(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,8])"), 8),
              HasSubstr("'t' has type F4"));
  EXPECT_THAT(
      refusal(one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"), 8),
      HasSubstr("larger than any file"));
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,8])"), 8),
              HasSubstr("lacks a shape"));
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8),
              HasSubstr("range of data"));
  EXPECT_THAT(refusal(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                      R"("t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                      0),
              HasSubstr("'t' appears twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})", 0), HasSubstr("'a' is not a string"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("header is not JSON"));
  EXPECT_THAT(refusal("{", 0), HasSubstr("header: "));
}

TEST(SafetensorsTest, AnythingSaidTwiceIsRefused) {
  EXPECT_THAT(refusal(R"({"t":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})", 0),
              HasSubstr("'dtype' appears twice"));
  EXPECT_THAT(parse_safetensors_index(R"({"weight_map":{"a":"one","a":"two"}})").error().message,
              HasSubstr("'a' appears twice"));
}

TEST(SafetensorsTest, HeadersThatCannotBeAreRefused) {
  const std::uint64_t huge = 100'000'001;
  std::vector<std::byte> bytes(64);
  std::memcpy(bytes.data(), &huge, sizeof huge);
  EXPECT_THAT(SafetensorsFile::parse(bytes).error().message, HasSubstr("at most 100000000"));
  bytes.assign(64, std::byte{0});
  bytes[0] = std::byte{57};
  EXPECT_THAT(SafetensorsFile::parse(bytes).error().message, HasSubstr("ends inside its header"));
}

class ShardsTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = *os::make_temporary_directory("shards"); }
  void TearDown() override { ASSERT_TRUE(os::remove_tree(folder_)); }
  void write(const std::string& name, const std::vector<std::byte>& bytes) {
    ASSERT_TRUE(os::replace_file(folder_ + "/" + name, bytes));
  }
  void write_index(const std::string& text) {
    ASSERT_TRUE(os::replace_file(folder_ + "/model.safetensors.index.json",
                                 std::as_bytes(std::span(text))));
  }
  static std::vector<std::byte> shard(const std::string& tensor) {
    return with_header("{\"" + tensor + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  }
  std::string folder_;
};

TEST_F(ShardsTest, AllShardsOfAnIndexAreOpened) {
  write("one", shard("a"));
  write("two", shard("b"));
  write_index(R"({"metadata":{"total_size":8},"weight_map":{"a":"one","b":"two"}})");
  const auto files = open_safetensors_folder(folder_);
  ASSERT_TRUE(files) << files.error().to_string();
  EXPECT_THAT(*files, SizeIs(2));
}

TEST_F(ShardsTest, MissingShardsAreNamedTogether) {
  write("two", shard("b"));
  write_index(R"({"weight_map":{"a":"one","b":"two","c":"three"}})");
  const Error error = open_safetensors_folder(folder_).error();
  EXPECT_EQ(error.code, Errc::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("lacks 2 of 3 shards: one, three"));
}

TEST_F(ShardsTest, AFolderThatMeansTwoModelsIsRefused) {
  write("one", shard("a"));
  write("model.safetensors", shard("b"));
  write_index(R"({"weight_map":{"a":"one"}})");
  const Error error = open_safetensors_folder(folder_).error();
  EXPECT_EQ(error.code, Errc::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("holds model.safetensors and an index"));
  write_index(R"({"weight_map":{"a":"one","b":"model.safetensors"}})");
  EXPECT_THAT(*open_safetensors_folder(folder_), SizeIs(2));
}

TEST_F(ShardsTest, AFileIsOpenedByItselfUnlessAnIndexNamesIt) {
  write("one", shard("a"));
  write("two", shard("b"));
  write("model.safetensors", shard("c"));
  EXPECT_EQ(open_safetensors_file(folder_ + "/two")->front().tensors().front().name, "b");
  write_index(R"({"weight_map":{"a":"one","b":"two"}})");
  EXPECT_THAT(*open_safetensors_file(folder_ + "/two"), SizeIs(2));
  EXPECT_EQ(open_safetensors_file(folder_ + "/model.safetensors")->front().tensors().front().name,
            "c");
}

TEST_F(ShardsTest, AnIndexThatLiesOrLeadsElsewhereIsRefused) {
  write("one", shard("a"));
  write_index(R"({"weight_map":{"b":"one"}})");
  EXPECT_THAT(open_safetensors_folder(folder_).error().message, HasSubstr("'b' is not in 'one'"));
  for (const auto* const outside : {"../one", "/etc/passwd", "sub/one", ".", ""}) {
    write_index(std::string(R"({"weight_map":{"a":")") + outside + "\"}}");
    EXPECT_THAT(open_safetensors_folder(folder_).error().message,
                HasSubstr("in no file of the folder"));
  }
}

}  // namespace
}  // namespace imex::inference
