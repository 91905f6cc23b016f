// Models in `.tensors` files: what is checked, and in which order, before their data is touched.
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>

#include "inference/model/model_file.hpp"
#include "inference/testing/allocation.hpp"
#include "inference/testing/data.hpp"
#include "inference/testing/tensors_writer.hpp"
#include "os/file.hpp"
#include "weight_table.hpp"

namespace imex::inference {
namespace {

using ::testing::HasSubstr;
using testing::TensorsForm;
using testing::WrittenTensor;

/// A llama of one layer in a folder of its own.
class TensorsModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = *os::make_temporary_directory("tensors-model");
    write_config(3, 2);
  }
  void TearDown() override { ASSERT_TRUE(os::remove_tree(folder_)); }

  void write_config(std::uint32_t vocabulary, std::uint32_t hidden) {
    config_ = R"({"architectures":["LlamaForCausalLM"],"num_attention_heads":1,"head_dim":2,)"
              R"("num_hidden_layers":1,"intermediate_size":2,"hidden_size":)" +
              std::to_string(hidden) + R"(,"vocab_size":)" + std::to_string(vocabulary) + "}";
    std::ofstream(folder_ + "/config.json") << config_;
  }
  /// All weights of the configuration: element i of each is i, or only described.
  [[nodiscard]] std::vector<WrittenTensor> weights(bool stored) const {
    const HyperParameters p = *parse_config_json(config_);
    std::vector<WrittenTensor> all;
    for (const WeightPlace& place : weights_of(p)) {
      WrittenTensor& one = all.emplace_back();
      one.name = weight_name(NamingScheme::kHuggingFace, place);
      std::size_t elements = 1;
      for (const std::uint64_t size : weight_shape(p, place.role)) {
        one.shape.push_back(static_cast<std::uint32_t>(size));
        elements *= size;
      }
      for (std::size_t i = 0; stored && i < elements; ++i) {
        const auto value = static_cast<float>(i);
        one.data.append(std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
      }
    }
    return all;
  }
  [[nodiscard]] Result<ModelFile> open(const std::vector<WrittenTensor>& tensors,
                                       const TensorsForm& form = {},
                                       const ModelSecret& secret = {}) const {
    std::ofstream(path(), std::ios::binary) << testing::write_tensors(tensors, form);
    return ModelFile::open(path(), secret);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/model.tensors"; }

  std::string folder_, config_;
};

/// The key 0, 1, ... 31, or another.
std::array<unsigned char, 32> key_bytes(unsigned char first) {
  std::array<unsigned char, 32> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<unsigned char>(first + i);
  return key;
}
ModelSecret key_secret(unsigned char first) {
  ModelSecret secret;
  secret.key.emplace(std::as_bytes(std::span<const unsigned char, 32>(key_bytes(first))));
  return secret;
}

ModelSecret passphrase_secret() {
  ModelSecret secret;
  secret.passphrase = "x";
  return secret;
}

TEST_F(TensorsModelTest, ShapesAreComparedBeforeAnythingIsMadeForThem) {
  auto tensors = weights(true);
  tensors[0].shape = {1U << 16U, 1U << 14U};  // 4 GiB, by a line of some bytes
  tensors[0].data.clear();
  std::ofstream(path(), std::ios::binary) << testing::write_tensors(tensors);
  const testing::LargestAllocation watch;
  const auto model = ModelFile::open(path());
  const std::size_t largest = watch.bytes();
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("is F32 of [65536, 16384], not [3, 2]"));
  EXPECT_LT(largest, std::size_t{1} << 20U);
}

TEST_F(TensorsModelTest, ZerosThatAreOnlyDescribedTakeNoMemory) {
  write_config(1U << 16U, 1U << 10U);
  auto tensors = weights(false);  // and one that is none, of more than any machine has
  WrittenTensor& ignored = tensors.emplace_back();
  ignored.name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  ignored.shape = {1U << 31U, 1U << 20U};
  std::ofstream(path(), std::ios::binary) << testing::write_tensors(tensors);
  const testing::LargestAllocation watch;
  const auto model = ModelFile::open(path());
  const std::size_t largest = watch.bytes();
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_LT(largest, std::size_t{1} << 20U);
  const Tensor& embedding = *model->weight({WeightRole::kEmbedding});
  ASSERT_EQ(embedding.bytes.size(), std::size_t{1} << 28U);
  EXPECT_EQ(embedding.bytes.back(), std::byte{0});
}

TEST_F(TensorsModelTest, AnEncryptedModelOpensWithItsKeyOnly) {
  const TensorsForm form{.version = 4, .key = key_bytes(0)};
  const auto opened = open(weights(true), form, key_secret(0));
  ASSERT_TRUE(opened) << opened.error().to_string();
  EXPECT_EQ(opened->format(), "Tensorizer 4, encrypted");
  float last = 0;
  std::memcpy(&last, opened->weight({WeightRole::kEmbedding})->bytes.data() + 20, sizeof last);
  EXPECT_EQ(last, 5.0F);
  EXPECT_TRUE(opened->verify());

  EXPECT_EQ(open(weights(true), form, key_secret(1)).error().code, Errc::kPermissionDenied);
  EXPECT_EQ(open(weights(true), form).error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(open(weights(true), form, passphrase_secret()).error().code, Errc::kFailedPrecondition);
  ModelSecret both = key_secret(0);
  both.passphrase = "x";
  EXPECT_EQ(open(weights(true), form, both).error().code, Errc::kInvalidArgument);
  EXPECT_THAT(open(weights(false), form, key_secret(0)).error().message, HasSubstr("has no data"));
}

TEST_F(TensorsModelTest, ASecretForWhatIsNotEncryptedIsRefused) {
  const Error error = open(weights(true), {}, key_secret(0)).error();
  EXPECT_EQ(error.code, Errc::kInvalidArgument);
  EXPECT_EQ(error.message, "'" + path() + "' is not encrypted, but a key or passphrase is given");
  const ModelSecret passphrase = passphrase_secret();
  EXPECT_EQ(ModelFile::open(path(), passphrase).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(ModelFile::open(folder_, passphrase).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(ModelFile::open(testing::test_data("gguf/qwen3.gguf"), passphrase).error().code,
            Errc::kInvalidArgument);
}

TEST_F(TensorsModelTest, HashesAreComparedWhenAsked) {
  const auto without = open(weights(true));
  ASSERT_TRUE(without) << without.error().to_string();
  EXPECT_EQ(without->verify().error().code, Errc::kFailedPrecondition);
  EXPECT_EQ(ModelFile::open(testing::test_data("gguf/qwen3.gguf"))->verify().error().code,
            Errc::kUnsupported);
}

TEST_F(TensorsModelTest, AChangedWeightIsFoundByItsHash) {
  IMEX_NEEDS_SHARED_MODEL("tensors/tinystories-656k.f32.tensors");
  std::string bytes =
      testing::read_text(testing::shared_model("tensors/tinystories-656k.f32.tensors"));
  std::ofstream(folder_ + "/config.json")
      << testing::read_text(testing::shared_model("tinystories-656k/config.json"));
  std::ofstream(path(), std::ios::binary) << bytes;
  const auto whole = ModelFile::open(path());
  ASSERT_TRUE(whole) << whole.error().to_string();
  EXPECT_TRUE(whole->verify());
  bytes[bytes.size() - 9] ^= 1;  // the last byte of data
  std::filesystem::remove(path());
  std::ofstream(path(), std::ios::binary) << bytes;
  const auto changed = ModelFile::open(path());
  ASSERT_TRUE(changed);  // headers are as they were
  EXPECT_EQ(changed->verify().error().code, Errc::kDataLoss);
}

Tensor tensor(std::string name, std::vector<std::uint64_t> shape) {
  Tensor one;
  one.name = std::move(name);
  one.shape = std::move(shape);
  return one;
}

TEST(WeightTableTest, TwoTensorsOfOneWeightAreRefusedByName) {
  HyperParameters p = *parse_config_json(
      R"({"architectures":["LlamaForCausalLM"],"num_attention_heads":1,"num_hidden_layers":1,)"
      R"("intermediate_size":2,"hidden_size":2,"vocab_size":3})");
  std::vector<Tensor> tensors;
  for (const WeightPlace& place : weights_of(p)) {
    tensors.push_back(
        tensor(weight_name(NamingScheme::kHuggingFace, place), weight_shape(p, place.role)));
  }
  const auto assigned = [&] { return assign_weights(tensors, NamingScheme::kHuggingFace, p); };
  ASSERT_TRUE(assigned());
  tensors.push_back(tensors[4]);  // as two shards may have it
  EXPECT_EQ(assigned().error().code, Errc::kDataLoss);
  EXPECT_THAT(assigned().error().message, HasSubstr("' are both the query weight of layer 0"));
  tensors.pop_back();
  tensors.push_back(tensor("blk.0.attn_q.weight", {2, 2}));  // of another scheme
  EXPECT_THAT(assigned().error().message, HasSubstr("is none of architecture llama"));
  tensors.pop_back();
  p.tied_head = true;  // then the embedding counts, and a head beside it is as large
  EXPECT_EQ(assigned()->weights.front().name, "model.embed_tokens.weight");
  tensors[2].shape = {9, 9};
  EXPECT_THAT(assigned().error().message, HasSubstr("'lm_head.weight' is F32 of [9, 9]"));
}

/// Fails each allocation of `attempt` once, from the first to the last.
void fail_every_allocation(const std::function<Result<void>()>& attempt) {
  // What libraries make once per process, at their first use, no file asked for.
  ASSERT_TRUE(attempt());
  for (std::size_t successes = 0; successes < 100'000; ++successes) {
    bool failed = false;
    Errc code = Errc::kOk;
    {
      const testing::FailAllocation failing(successes);
      const auto done = attempt();
      failed = failing.happened();
      if (!done) code = done.error().code;
    }
    if (!failed) {
      ASSERT_EQ(code, Errc::kOk);
      return;
    }
    // A library that does without (a temporary buffer of a sort) is as good.
    ASSERT_TRUE(code == Errc::kResourceExhausted || code == Errc::kOk)
        << errc_name(code) << " after " << successes;
  }
  FAIL() << "never done";
}

TEST(OutOfMemoryTest, IsAnErrorWhereverItHappens) {
  const std::string path = testing::test_data("gguf/qwen3.gguf");
  fail_every_allocation([&]() -> Result<void> {
    IMEX_TRY(const auto model, ModelFile::open(path));
    IMEX_TRY(const auto tokenizer, model.tokenizer());
    return {};
  });
  const std::string json = testing::read_text(testing::test_data("tokenizers/smollm.json"));
  fail_every_allocation([&]() -> Result<void> {
    IMEX_TRY(const auto tokenizer, read_tokenizer_json(json));
    return {};
  });
}

}  // namespace
}  // namespace imex::inference
