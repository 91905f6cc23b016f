/// Small models with weights made from a seed, written on the spot: for tests that must run without
/// any file. Needs the rooms inference_format and inference_model.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "inference/model/model_file.hpp"
#include "inference/testing/gguf_writer.hpp"

namespace imex::inference::testing {

struct TinyModel {
  std::uint32_t hidden = 32, feed_forward = 44, layers = 3, query_heads = 4, kv_heads = 2;
  std::uint32_t vocabulary = 61, context = 96;
  unsigned seed = 1;
};

/// Little-endian bytes of a file in the making.
class FileBytes {
 public:
  template <class T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_bytes(std::string_view bytes) { bytes_ += bytes; }
  void align(std::size_t unit) { bytes_.resize((bytes_.size() + unit - 1) / unit * unit); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  void write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    EXPECT_TRUE(file.flush()) << path;
  }

 private:
  std::string bytes_;
};

/// A llama2.c checkpoint with a tied head, float32. `damage` may change a weight: it sees the
/// number of the float in the file.
inline void write_tiny_llama2c(const std::string& path, const TinyModel& model,
                               const std::function<void(std::size_t, float&)>& damage = {}) {
  FileBytes out;
  for (const std::uint32_t size :
       {model.hidden, model.feed_forward, model.layers, model.query_heads, model.kv_heads,
        model.vocabulary, model.context}) {
    out.put(size);
  }
  std::mt19937 random(model.seed);
  std::size_t number = 0;
  const auto put = [&](std::size_t count, float middle, float spread) {
    std::normal_distribution<float> values(middle, spread);
    for (std::size_t i = 0; i < count; ++i) {
      float value = values(random);
      if (damage) damage(number, value);
      ++number;
      out.put(value);
    }
  };
  const std::size_t d = model.hidden, f = model.feed_forward, l = model.layers;
  const std::size_t kv = d / model.query_heads * model.kv_heads;
  put(model.vocabulary * d, 0, 1);
  put(l * d, 1, 0.1F);
  for (const std::size_t rows : {d, kv, kv, d}) put(l * rows * d, 0, 0.3F);
  put(l * d, 1, 0.1F);
  for (int i = 0; i < 3; ++i) put(l * f * d, 0, 0.3F);
  put(d, 1, 0.1F);
  put(model.context * (d / model.query_heads), 0, 0);  // tables that readers make themselves
  out.write(path);
}

struct TinyPiece {
  float score = 0;
  std::string text;
};

/// A tokenizer of bytes, the first letters and some pairs of them. `vocabulary` is 300 at least.
inline std::vector<TinyPiece> tiny_pieces(std::uint32_t vocabulary) {
  std::vector<TinyPiece> pieces{{0, "<unk>"}, {0, "\n<s>\n"}, {0, "\n</s>\n"}};
  constexpr const char* kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    pieces.push_back({0, std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">"});
  }
  for (std::uint32_t token = 259; token < vocabulary; ++token) {
    const std::uint32_t at = token - 259;
    std::string text(1, static_cast<char>('a' + at % 26));
    if (at >= 26) text += static_cast<char>('a' + at / 26);
    pieces.push_back({-static_cast<float>(at), at == 27 ? " " : text});
  }
  return pieces;
}

/// Beside a checkpoint.
inline void write_tiny_tokenizer(const std::string& path, std::uint32_t vocabulary) {
  FileBytes out;
  out.put(std::uint32_t{8});
  for (const TinyPiece& piece : tiny_pieces(vocabulary)) {
    out.put(piece.score);
    out.put(static_cast<std::uint32_t>(piece.text.size()));
    out.put_bytes(piece.text);
  }
  out.write(path);
}

/// The same inside a GGUF file: kTinyTokenizerPairs pairs.
constexpr std::uint64_t kTinyTokenizerPairs = 7;
inline void put_tiny_tokenizer(GgufWriter& out, std::uint32_t vocabulary,
                               const std::string& chat_template) {
  constexpr std::uint32_t kInt32 = 5, kFloat32 = 6, kString = 8, kArray = 9;
  const auto pieces = tiny_pieces(vocabulary);
  const auto array = [&](const char* key, std::uint32_t type) {
    out.text(key).put(kArray).put(type).put(std::uint64_t{pieces.size()});
  };
  out.pair("tokenizer.ggml.model", "llama");
  array("tokenizer.ggml.tokens", kString);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    out.text(i == 1                  ? "<s>"
             : i == 2                ? "</s>"
             : pieces[i].text == " " ? "\xe2\x96\x81"
                                     : pieces[i].text);
  }
  array("tokenizer.ggml.scores", kFloat32);
  for (const TinyPiece& piece : pieces) out.put(piece.score);
  array("tokenizer.ggml.token_type", kInt32);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
    out.put(i == 0 ? kUnknown : i < 3 ? kControl : i < 259 ? kByte : kNormal);
  }
  out.pair("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  out.pair("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  out.pair("tokenizer.chat_template", chat_template);
}

/// The number, in such a file, of one weight of a layer's down projection.
inline std::size_t tiny_down_weight(const TinyModel& model, std::size_t layer, std::size_t row,
                                    std::size_t column) {
  const std::size_t d = model.hidden, f = model.feed_forward, l = model.layers;
  const std::size_t kv = d / model.query_heads * model.kv_heads;
  return model.vocabulary * d + 2 * l * d + l * d * (2 * d + 2 * kv) + l * f * d + layer * d * f +
         row * f + column;
}

/// A GGUF file of architecture "llama" whose matrices have one type. Sizes must be whole blocks.
/// With a chat template it also has a tokenizer.
inline void write_tiny_gguf(const std::string& path, const TinyModel& model, TensorType type,
                            const std::string& chat_template = {}) {
  constexpr std::size_t kAlignment = 32;
  const auto number_of = [](TensorType stored) -> std::uint32_t {
    switch (stored) {
      case TensorType::kF32:
        return 0;
      case TensorType::kF16:
        return 1;
      case TensorType::kQ40:
        return 2;
      case TensorType::kQ41:
        return 3;
      case TensorType::kQ50:
        return 6;
      case TensorType::kQ51:
        return 7;
      case TensorType::kQ80:
        return 8;
      case TensorType::kQ4K:
        return 12;
      case TensorType::kQ5K:
        return 13;
      case TensorType::kQ6K:
        return 14;
      default:
        ADD_FAILURE() << "no type of this test";
        return 0;
    }
  };
  HyperParameters parameters;
  parameters.architecture = &architectures()[0];
  parameters.hidden = model.hidden;
  parameters.feed_forward = model.feed_forward;
  parameters.query_heads = model.query_heads;
  parameters.kv_heads = model.kv_heads;
  parameters.head_size = model.hidden / model.query_heads;
  parameters.vocabulary = model.vocabulary;
  parameters.tied_head = true;
  parameters.layers.resize(model.layers);
  const auto places = weights_of(parameters);

  GgufWriter out;
  const bool talks = !chat_template.empty();
  out.header(places.size(), 9 + (talks ? kTinyTokenizerPairs : 0));
  out.pair("general.architecture", "llama");
  out.pair("llama.block_count", model.layers);
  out.pair("llama.embedding_length", model.hidden);
  out.pair("llama.feed_forward_length", model.feed_forward);
  out.pair("llama.attention.head_count", model.query_heads);
  out.pair("llama.attention.head_count_kv", model.kv_heads);
  out.pair("llama.context_length", model.context);
  out.pair("llama.vocab_size", model.vocabulary);
  out.pair("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  if (talks) put_tiny_tokenizer(out, model.vocabulary, chat_template);

  std::mt19937 random(model.seed);
  FileBytes data;
  for (const WeightPlace& place : places) {
    const auto shape = weight_shape(parameters, place.role);
    const TensorType stored = shape.size() == 2 ? type : TensorType::kF32;
    out.tensor(weight_name(NamingScheme::kGguf, place), {shape.rbegin(), shape.rend()},
               number_of(stored), data.size());
    std::uint64_t elements = 1;
    for (const std::uint64_t size : shape) elements *= size;
    const TypeLayout& layout = layout_of(stored);
    for (std::uint64_t block = 0; block < elements / layout.block_elements; ++block) {
      if (stored == TensorType::kF32) {
        data.put(std::normal_distribution<float>(shape.size() == 1 ? 1.0F : 0.0F, 0.2F)(random));
        continue;
      }
      // Any bytes are integers of a block; its scales are small numbers in float16.
      std::string bytes(layout.block_bytes, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      const auto set_scale = [&](std::size_t at, std::uint16_t value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
      };
      constexpr std::uint16_t kScale = 0x251e, kMinimum = 0xac00;  // 0.02, -0.0625
      switch (stored) {
        case TensorType::kF16:
          set_scale(0, static_cast<std::uint16_t>((random() & 0x8fffU) | 0x2000U));
          break;
        case TensorType::kQ41:
        case TensorType::kQ51:
          set_scale(0, kScale);
          set_scale(2, kMinimum);
          break;
        case TensorType::kQ4K:
        case TensorType::kQ5K:
          set_scale(0, 0x0c00);
          set_scale(2, 0x0c00);
          break;
        case TensorType::kQ6K:
          set_scale(layout.block_bytes - 2, 0x0400);
          break;
        case TensorType::kQ80:
          set_scale(0, 0x1800);
          break;
        default:
          set_scale(0, kScale);
      }
      data.put_bytes(bytes);
    }
    data.align(kAlignment);
  }
  out.data(0, kAlignment);
  FileBytes file;
  file.put_bytes({reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()});
  file.put_bytes(data.bytes());
  file.write(path);
}

}  // namespace imex::inference::testing
