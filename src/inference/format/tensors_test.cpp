#include "inference/format/tensors.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>

#include "crc32.hpp"
#include "inference/format/half.hpp"
#include "inference/format/safetensors.hpp"
#include "inference/testing/data.hpp"
#include "tensors_records.hpp"

namespace imex::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Bytes = std::vector<std::byte>;

Bytes file_bytes(const std::string& path) {
  const std::string text = testing::read_text(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TensorsFile open(const std::string& path) {
  auto file = TensorsFile::open(path);
  EXPECT_TRUE(file) << file.error().to_string();
  return file ? std::move(*file) : TensorsFile();
}

Bytes data_of(const TensorsFile& file, const TensorsEntry& entry, const TensorsKey* key = nullptr) {
  Bytes out(entry.data_bytes, std::byte{0xaa});
  const auto done = file.read(entry, key, out);
  EXPECT_TRUE(done) << done.error().to_string();
  return out;
}

std::vector<float> values_of(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TensorsKey counting_key() {
  std::array<std::byte, 32> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  return TensorsKey(key);
}

TEST(Crc32Test, IsZlibs) {
  const std::string text = "123456789";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(crc32(0, bytes), 0xcbf4'3926U);
  EXPECT_EQ(crc32(crc32(0, bytes.first(4)), bytes.subspan(4)), 0xcbf4'3926U);
}

TEST(TensorsTest, EveryShapeOfTheFormatReads) {
  const TensorsFile file = open(testing::test_data("weights/shapes.tensors"));
  EXPECT_EQ(file.version(), 4U);
  EXPECT_FALSE(file.encrypted());
  bool scalar = false;
  bool zeros = false;
  for (const TensorsEntry& entry : file.entries()) {
    const Bytes data = data_of(file, entry);  // verifies the hashes
    EXPECT_TRUE(entry.crc32 && entry.sha256) << entry.tensor.name;
    scalar = scalar || entry.tensor.shape.empty();
    if (!entry.zeros) continue;
    zeros = true;
    EXPECT_FALSE(data.empty());
    EXPECT_TRUE(std::ranges::all_of(data, [](std::byte byte) { return byte == std::byte{0}; }));
  }
  EXPECT_TRUE(scalar);
  EXPECT_TRUE(zeros);
}

TEST(TensorsTest, ModulesHaveKindsAndIndices) {
  const TensorsFile file = open(testing::test_data("weights/module.tensors"));
  EXPECT_EQ(file.version(), 1U);
  bool parameter = false;
  bool buffer = false;
  for (const TensorsEntry& entry : file.entries()) {
    parameter = parameter || entry.kind == TensorsEntry::Kind::kParameter;
    buffer = buffer || entry.kind == TensorsEntry::Kind::kBuffer;
    static_cast<void>(data_of(file, entry));
  }
  EXPECT_TRUE(parameter && buffer);
}

TEST(TensorsTest, APassphraseOpensWhatItEncrypted) {
  const TensorsFile file = open(testing::test_data("weights/encrypted-string.tensors"));
  EXPECT_TRUE(file.encrypted());
  const auto key = TensorsKey::from_passphrase("imex test passphrase", file);
  ASSERT_TRUE(key) << key.error().to_string();
  const TensorsEntry* const small = file.find("small");
  ASSERT_NE(small, nullptr);
  std::vector<float> wanted(1024);
  std::iota(wanted.begin(), wanted.end(), 0.0F);
  EXPECT_EQ(values_of(data_of(file, *small, &*key)), wanted);

  const auto wrong = TensorsKey::from_passphrase("another", file);
  ASSERT_TRUE(wrong);
  Bytes out(small->data_bytes);
  EXPECT_EQ(file.read(*small, &*wrong, out).error().code, Errc::kPermissionDenied);
  EXPECT_EQ(file.read(*small, nullptr, out).error().code, Errc::kFailedPrecondition);
}

TEST(TensorsTest, ChangedDataIsFound) {
  for (const auto* const name : {"module", "encrypted-string"}) {
    Bytes bytes = file_bytes(testing::test_data(std::string("weights/") + name + ".tensors"));
    std::size_t offset = 0;
    {
      const auto file = TensorsFile::parse(bytes);
      ASSERT_TRUE(file);
      offset = static_cast<std::size_t>(file->entries()[0].tensor.bytes.data() - bytes.data());
    }
    bytes[offset] ^= std::byte{1};
    const auto file = TensorsFile::parse(bytes);
    ASSERT_TRUE(file);
    const TensorsEntry& entry = file->entries()[0];
    Bytes out(entry.data_bytes);
    std::optional<TensorsKey> key;
    if (file->encrypted()) key = *TensorsKey::from_passphrase("imex test passphrase", *file);
    const auto done = file->read(entry, key ? &*key : nullptr, out);
    ASSERT_FALSE(done) << name;
    EXPECT_EQ(done.error().code, key ? Errc::kPermissionDenied : Errc::kDataLoss);
  }
}

TEST(TensorsTest, EveryTruncationIsRefused) {
  const Bytes whole = file_bytes(testing::test_data("weights/shapes.tensors"));
  ASSERT_TRUE(TensorsFile::parse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(TensorsFile::parse(std::span(whole).first(size))) << size;
  }
}

TEST(TensorsTest, WhatIsNotKnownIsRefused) {
  const Bytes whole = file_bytes(testing::test_data("weights/shapes.tensors"));
  const auto changed = [&](std::size_t at, unsigned value) {
    Bytes bytes = whole;
    bytes[at] = static_cast<std::byte>(value);
    const auto file = TensorsFile::parse(bytes);
    return file ? std::string("was read") : file.error().message;
  };
  EXPECT_THAT(changed(0, 'x'), HasSubstr("wrong magic"));
  EXPECT_THAT(changed(5, 5), HasSubstr("version 5"));
  EXPECT_THAT(changed(5, 0), HasSubstr("version 0"));
  EXPECT_THAT(changed(9, 2), HasSubstr("feature flags"));
  EXPECT_THAT(changed(40, 1), HasSubstr("feature flags"));
  EXPECT_THAT(changed(64, 0x80), HasSubstr("tensors in a table"));
  EXPECT_THAT(changed(72, 0x80), HasSubstr("tensors in a table"));
}

TEST(TensorsNamesTest, NamesThatConflictAreRefused) {
  const auto name = [](std::string_view text) {
    auto read = read_tensors_name(std::as_bytes(std::span(text)), 2);
    EXPECT_TRUE(read);
    return *read;
  };
  const auto check = [&](std::vector<std::string_view> texts) {
    std::vector<TensorsName> names;
    for (const std::string_view text : texts) names.push_back(name(text));
    return check_tensors_names(names).has_value();
  };
  EXPECT_EQ(name("\x1e[\"a\",0,\"\\u00fc\"]").text, "a.[0].ü");
  EXPECT_THAT(name("a.b").path, IsEmpty());
  EXPECT_TRUE(check({"\x1e[\"a\",\"b\"]", "\x1e[\"a\",\"c\"]", "a.d"}));
  EXPECT_TRUE(check({"\x1e[\"a\",\"[b\"]", "\x1e[\"a\",\"c\"]"}));  // a key, no index
  EXPECT_TRUE(check({"\x1e[0,\"a\"]", "\x1e[1,0]", "\x1e[1,1]", "\x1e[10,\"a\"]"}));
  EXPECT_FALSE(check({"\x1e[\"a\",\"b\"]", "a.b"}));
  EXPECT_FALSE(check({"\x1e[\"a\",\"b\",\"c\"]", "\x1e[\"a\",\"b-\"]", "\x1e[\"a\",\"b\"]"}));
  EXPECT_FALSE(check({"\x1e[\"a\",\"b\",\"c\"]", "\x1e[\"a\",0,\"d\"]", "\x1e[\"b\"]"}));
  EXPECT_FALSE(check({"a", "a"}));
  EXPECT_FALSE(check({"\x1e[\"a\"]", "\x1e[\"a\",\"b\"]"}));
  EXPECT_FALSE(check({"\x1e[\"a\",0]", "\x1e[\"a\",\"b\"]"}));
  for (const std::string_view wrong :
       {"\x1e", "\x1e[]", "\x1e{}", "\x1e[1.5]", "\x1e[\"a\"", "\xff"}) {
    EXPECT_FALSE(read_tensors_name(std::as_bytes(std::span(wrong)), 2));
  }
}

TEST(TensorsNamesTest, PathsAreShortAndOnlyForStateDictionaries) {
  const auto path = [](std::size_t parts) {
    std::string text = "\x1e[\"a\"";
    for (std::size_t i = 1; i < parts; ++i) text += ",0";
    return text + "]";
  };
  const auto read = [](const std::string& text, std::uint8_t kind) {
    return read_tensors_name(std::as_bytes(std::span(text)), kind);
  };
  EXPECT_TRUE(read(path(64), 2));
  EXPECT_THAT(read(path(65), 2).error().message, HasSubstr("has 65 parts; 1 to 64"));
  EXPECT_THAT(read(path(32'766), 2).error().message, HasSubstr("32766 parts"));
  EXPECT_THAT(read(path(2), 0).error().message, HasSubstr("kind 0 is named by a path"));
  EXPECT_THAT(read(path(2), 1).error().message, HasSubstr("kind 1 is named by a path"));
}

TEST(SharedTensorsTest, AKeyOpensChunksInOrder) {
  IMEX_NEEDS_SHARED_MODEL("tensors/encrypted-key.tensors");
  const TensorsFile file = open(testing::shared_model("tensors/encrypted-key.tensors"));
  const TensorsKey key = counting_key();
  const TensorsEntry* const big = file.find("big");
  ASSERT_NE(big, nullptr);
  EXPECT_THAT(big->tensor.shape, ElementsAre(768, 768));
  ASSERT_TRUE(big->cipher);
  EXPECT_THAT(big->cipher->macs, SizeIs(2));
  const std::vector<float> values = values_of(data_of(file, *big, &key));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<float>(i % 251)) << i;
  EXPECT_EQ(TensorsKey::from_passphrase("x", file).error().code, Errc::kFailedPrecondition);
}

TEST(SharedTensorsTest, PlainAndRoundedModelsHoldTheSafetensorsModel) {
  IMEX_NEEDS_SHARED_MODEL("tensors/tinystories-656k.f32.tensors");
  const auto model = open_safetensors_folder(testing::shared_model("tinystories-656k"));
  ASSERT_TRUE(model) << model.error().to_string();
  const TensorsFile f32 = open(testing::shared_model("tensors/tinystories-656k.f32.tensors"));
  const TensorsFile bf16 = open(testing::shared_model("tensors/tinystories-656k.bf16.tensors"));
  EXPECT_EQ(f32.version(), 1U);
  EXPECT_EQ(bf16.version(), 2U);
  for (const Tensor& tensor : model->front().tensors()) {
    const TensorsEntry* const same = f32.find(tensor.name);
    const TensorsEntry* const rounded = bf16.find(tensor.name);
    ASSERT_TRUE(same != nullptr && rounded != nullptr) << tensor.name;
    EXPECT_EQ(same->tensor.shape, tensor.shape);
    ASSERT_TRUE(std::ranges::equal(data_of(f32, *same), tensor.bytes)) << tensor.name;
    ASSERT_EQ(rounded->tensor.type, TensorType::kBf16);
    const Bytes half = data_of(bf16, *rounded);
    for (std::size_t i = 0; i < half.size() / 2; ++i) {
      float exact = 0;
      std::uint16_t bits = 0;
      std::memcpy(&exact, tensor.bytes.data() + 4 * i, sizeof exact);
      std::memcpy(&bits, half.data() + 2 * i, sizeof bits);
      ASSERT_NEAR(bf16_to_f32(bits), exact, std::abs(exact) / 256) << tensor.name << " " << i;
    }
  }
}

}  // namespace
}  // namespace imex::inference
