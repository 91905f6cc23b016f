// The peer of tiny models: a Llama as plain float32 loops on one thread, as short as such a program
// can be, left to the compiler (-O3 -march=native -ffast-math). It takes the options of llama.cpp's
// llama-bench that `imex bench generate` uses, and answers in its JSON:
//
//   plain_llama -m MODEL -t 1 -p PREFILL -n DECODE -r 1 -o json
//
// Weights of other types are made float32 first. Biases, norms of q and k, windows: not here. More
// threads than one are not used. A prompt is run token by token.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "inference/format/dequantize.hpp"
#include "inference/model/model_file.hpp"

namespace imex::inference {
namespace {

using Vector = std::vector<float>;

struct Layer {
  Vector attention_norm, query, key, value, output, feed_forward_norm, gate, up, down;
};

class PlainLlama {
 public:
  PlainLlama(const ModelFile& model, std::size_t context)
      : p_(model.parameters()), width_(p_.query_heads * p_.head_size) {
    const auto read = [&](WeightRole role, std::uint32_t layer = 0) {
      const Tensor& tensor = *model.weight({role, layer});
      std::size_t elements = 1;
      for (const std::uint64_t size : tensor.shape) elements *= size;
      Vector values(elements);
      dequantize(tensor.type, tensor.bytes, values);
      return values;
    };
    embedding_ = read(WeightRole::kEmbedding);
    final_norm_ = read(WeightRole::kFinalNorm);
    if (!p_.tied_head) head_ = read(WeightRole::kHead);
    for (std::uint32_t i = 0; i < p_.layer_count(); ++i) {
      layers_.push_back({read(WeightRole::kAttentionNorm, i), read(WeightRole::kQuery, i),
                         read(WeightRole::kKey, i), read(WeightRole::kValue, i),
                         read(WeightRole::kOutput, i), read(WeightRole::kFeedForwardNorm, i),
                         read(WeightRole::kGate, i), read(WeightRole::kUp, i),
                         read(WeightRole::kDown, i)});
    }
    const std::size_t kv = p_.kv_heads * p_.head_size;
    keys_.assign(p_.layer_count() * context * kv, 0);
    values_ = keys_;
    context_ = context;
    for (std::size_t position = 0; position < context; ++position) {
      for (std::uint32_t i = 0; i < p_.head_size; i += 2) {
        const double angle =
            static_cast<double>(position) *
            std::pow(static_cast<double>(p_.rope_theta), -static_cast<double>(i) / p_.head_size);
        cos_.push_back(static_cast<float>(std::cos(angle)));
        sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    x_.resize(p_.hidden), h_.resize(p_.hidden), q_.resize(width_), out_.resize(width_);
    gate_.resize(p_.feed_forward), up_.resize(p_.feed_forward);
    scores_.resize(context), logits_.resize(p_.vocabulary);
  }

  /// The likeliest token after this one.
  std::uint32_t step(std::uint32_t token, std::size_t position) {
    std::memcpy(x_.data(), &embedding_[std::size_t{token} * p_.hidden], p_.hidden * sizeof(float));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      attend(layers_[i], i, position);
      feed_forward(layers_[i]);
    }
    normalise(final_norm_);
    multiply(logits_, p_.tied_head ? embedding_ : head_, h_);
    std::uint32_t best = 0;
    for (std::uint32_t i = 1; i < p_.vocabulary; ++i) {
      if (logits_[i] > logits_[best]) best = i;
    }
    return best;
  }

 private:
  static void multiply(std::span<float> out, const Vector& matrix, std::span<const float> in) {
    for (std::size_t row = 0; row < out.size(); ++row) {
      const float* weights = matrix.data() + row * in.size();
      float sum = 0;
      for (std::size_t i = 0; i < in.size(); ++i) sum += weights[i] * in[i];
      out[row] = sum;
    }
  }
  void normalise(const Vector& weights) {
    float sum = 0;
    for (const float value : x_) sum += value * value;
    const float scale = 1 / std::sqrt(sum / static_cast<float>(x_.size()) + p_.norm_epsilon);
    for (std::size_t i = 0; i < x_.size(); ++i) h_[i] = x_[i] * scale * weights[i];
  }
  void rotate(float* head, std::size_t position) const {
    const std::size_t half = p_.head_size / 2;
    const bool halves = p_.rope_pairs == RopePairs::kHalves;
    for (std::size_t i = 0; i < half; ++i) {
      float& a = head[halves ? i : 2 * i];
      float& b = head[halves ? i + half : 2 * i + 1];
      const float cos = cos_[position * half + i], sin = sin_[position * half + i];
      const float turned = a * cos - b * sin;
      b = a * sin + b * cos;
      a = turned;
    }
  }
  void attend(const Layer& layer, std::size_t number, std::size_t position) {
    const std::size_t size = p_.head_size, kv = p_.kv_heads * size;
    float* keys = keys_.data() + number * context_ * kv;
    float* values = values_.data() + number * context_ * kv;
    normalise(layer.attention_norm);
    multiply(q_, layer.query, h_);
    multiply({keys + position * kv, kv}, layer.key, h_);
    multiply({values + position * kv, kv}, layer.value, h_);
    for (std::size_t at = 0; at < width_; at += size) rotate(q_.data() + at, position);
    for (std::size_t at = 0; at < kv; at += size) rotate(keys + position * kv + at, position);
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    for (std::uint32_t head = 0; head < p_.query_heads; ++head) {
      const float* query = q_.data() + head * size;
      const std::size_t shared = head / (p_.query_heads / p_.kv_heads) * size;
      float most = -INFINITY, sum = 0;
      for (std::size_t t = 0; t <= position; ++t) {
        float score = 0;
        for (std::size_t i = 0; i < size; ++i) score += query[i] * keys[t * kv + shared + i];
        scores_[t] = score * scale;
        most = scores_[t] > most ? scores_[t] : most;
      }
      for (std::size_t t = 0; t <= position; ++t) {
        scores_[t] = std::exp(scores_[t] - most);
        sum += scores_[t];
      }
      float* out = out_.data() + head * size;
      for (std::size_t i = 0; i < size; ++i) out[i] = 0;
      for (std::size_t t = 0; t <= position; ++t) {
        const float share = scores_[t] / sum;
        for (std::size_t i = 0; i < size; ++i) out[i] += share * values[t * kv + shared + i];
      }
    }
    multiply(h_, layer.output, out_);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += h_[i];
  }
  void feed_forward(const Layer& layer) {
    normalise(layer.feed_forward_norm);
    multiply(gate_, layer.gate, h_);
    multiply(up_, layer.up, h_);
    for (std::size_t i = 0; i < gate_.size(); ++i) {
      gate_[i] = gate_[i] / (1 + std::exp(-gate_[i])) * up_[i];
    }
    multiply(h_, layer.down, gate_);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += h_[i];
  }

  const HyperParameters& p_;
  std::size_t width_, context_ = 0;
  Vector embedding_, final_norm_, head_;
  std::vector<Layer> layers_;
  Vector keys_, values_, cos_, sin_;
  Vector x_, h_, q_, out_, gate_, up_, scores_, logits_;
};

/// Tokens per second of `count` steps, each with the token that the last one gave.
double measure(PlainLlama& llama, std::size_t count) {
  std::uint32_t token = 1;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t position = 0; position < count; ++position) token = llama.step(token, position);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(count) / time.count();
}

int run(int argc, char** argv) {
  const char* path = nullptr;
  std::size_t prefill = 0, decode = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "-m") path = argv[i + 1];
    if (option == "-p") prefill = std::strtoul(argv[i + 1], nullptr, 10);
    if (option == "-n") decode = std::strtoul(argv[i + 1], nullptr, 10);
  }
  if (path == nullptr || prefill == 0 || decode == 0) {
    std::fprintf(stderr, "usage: plain_llama -m MODEL -p PREFILL -n DECODE\n");
    return 2;
  }
  const auto model = ModelFile::open(path);
  if (!model) {
    std::fprintf(stderr, "plain_llama: %s\n", model.error().to_string().c_str());
    return 1;
  }
  PlainLlama llama(*model, std::max(prefill, decode));
  measure(llama, decode);  // warm
  const double decoded = measure(llama, decode), filled = measure(llama, prefill);
  std::printf("[{\"n_gen\": 0, \"avg_ts\": %.6f}, {\"n_gen\": %zu, \"avg_ts\": %.6f}]\n", filled,
              decode, decoded);
  return 0;
}

}  // namespace
}  // namespace imex::inference

int main(int argc, char** argv) { return imex::inference::run(argc, argv); }
