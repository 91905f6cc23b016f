#include "transformer.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "clock.hpp"
#include "inference/operators/activation.hpp"
#include "inference/operators/norm.hpp"

namespace imex::inference {
namespace {

/// Adds the time until it is destroyed.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& total) noexcept : total_(total), begin_(steady_ns()) {}
  ~Stopwatch() { total_ += steady_ns() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::uint64_t& total_;
  std::uint64_t begin_;
};

void add_bias(std::span<float> rows, std::span<const float> bias) noexcept {
  if (bias.empty()) return;
  for (std::size_t at = 0; at < rows.size(); at += bias.size()) {
    for (std::size_t i = 0; i < bias.size(); ++i) rows[at + i] += bias[i];
  }
}

void norm_heads(std::span<float> heads, std::span<const float> weight, float epsilon) noexcept {
  if (weight.empty()) return;
  for (std::size_t at = 0; at < heads.size(); at += weight.size()) {
    const auto head = heads.subspan(at, weight.size());
    rms_norm(head, weight, epsilon, head);
  }
}

/// Tokens from `begin` on that are neighbours in one sequence.
std::size_t run_length(std::span<const StepToken> tokens, std::size_t begin) noexcept {
  std::size_t end = begin + 1;
  while (end < tokens.size() && tokens[end].sequence == tokens[begin].sequence &&
         tokens[end].position == tokens[end - 1].position + 1) {
    ++end;
  }
  return end - begin;
}

Activations::Form form_of(std::initializer_list<const MatrixView*> readers) noexcept {
  unsigned form = 0;
  for (const MatrixView* const matrix : readers) {
    form |= static_cast<unsigned>(matrix->is_packed() ? Activations::Form::kPacked
                                                      : Activations::Form::kPlain);
  }
  return static_cast<Activations::Form>(form);
}

}  // namespace

KvCache Transformer::cache_of(std::uint32_t layer) const noexcept {
  const std::size_t floats = limits_.kv_blocks * kv_layout_.block_floats();
  auto* const begin = reinterpret_cast<float*>(cache_.data()) + 2 * layer * floats;
  return {kv_layout_, begin, begin + floats};
}

Result<void> Transformer::run(std::span<const StepToken> tokens, const BlockTables& tables) {
  IMEX_ASSERT(!tokens.empty() && tokens.size() <= limits_.rows, "a step has 1 to `rows` tokens");
  rows_ = static_cast<std::uint32_t>(tokens.size());
  const std::size_t hidden = parameters_->hidden;
  for (std::size_t row = 0; row < rows_; ++row) {
    const std::span<float> x(stream_.data() + row * hidden, hidden);
    weights_->embed(tokens[row].token, x);
    rms_norm(x, weights_->layer(0).attention_norm, parameters_->norm_epsilon,
             {normed_.data() + row * hidden, hidden});
  }
  const std::uint32_t layers = parameters_->layer_count();
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const LayerWeights& weights = weights_->layer(layer);
    attention(layer, tokens, tables);
    IMEX_CHECK_OK(exchange(attention_phase_, weights.output_bias, weights.feed_forward_norm));
    feed_forward(layer);
    const auto next_norm =
        layer + 1 < layers ? weights_->layer(layer + 1).attention_norm : weights_->final_norm();
    IMEX_CHECK_OK(exchange(feed_forward_phase_, weights.down_bias, next_norm));
  }
  return {};
}

void Transformer::attention(std::uint32_t layer, std::span<const StepToken> tokens,
                            const BlockTables& tables) {
  const Stopwatch stopwatch(phase_times_.attention);
  project(layer);
  rotate_and_append(layer, tokens, tables);
  attend_all(layer, tokens, tables);
  const MatrixView& output = weights_->layer(layer).output;
  inputs_->set({attended_.data(), std::size_t{rows_} * query_width_}, rows_, query_width_,
               form_of({&output}));
  sum_partially(output, attention_phase_);
  look_for_nan(2 * layer);
}

void Transformer::project(std::uint32_t layer) {
  const LayerWeights& weights = weights_->layer(layer);
  const std::size_t hidden = parameters_->hidden;
  inputs_->set({normed_.data(), rows_ * hidden}, rows_, hidden,
               form_of({&weights.query, &weights.key, &weights.value}));
  multiply(weights.query, *inputs_, query_.data(), query_width_);
  multiply(weights.key, *inputs_, key_.data(), kv_width_);
  multiply(weights.value, *inputs_, value_.data(), kv_width_);
  const std::span<float> query(query_.data(), std::size_t{rows_} * query_width_);
  const std::span<float> key(key_.data(), std::size_t{rows_} * kv_width_);
  add_bias(query, weights.query_bias);
  add_bias(key, weights.key_bias);
  add_bias({value_.data(), key.size()}, weights.value_bias);
  norm_heads(query, weights.query_norm, parameters_->norm_epsilon);
  norm_heads(key, weights.key_norm, parameters_->norm_epsilon);
}

void Transformer::rotate_and_append(std::uint32_t layer, std::span<const StepToken> tokens,
                                    const BlockTables& tables) {
  const KvCache cache = cache_of(layer);
  const bool rotates = parameters_->layers[layer].rotates;
  for (std::size_t row = 0; row < rows_; ++row) {
    const StepToken& token = tokens[row];
    const std::span<float> query(query_.data() + row * query_width_, query_width_);
    const std::span<float> key(key_.data() + row * kv_width_, kv_width_);
    if (rotates) {
      rope_->rotate(query, token.position, parameters_->rope_pairs);
      rope_->rotate(key, token.position, parameters_->rope_pairs);
    }
    append(cache, tables[token.sequence], token.position, key,
           {value_.data() + row * kv_width_, kv_width_});
  }
}

void Transformer::attend_all(std::uint32_t layer, std::span<const StepToken> tokens,
                             const BlockTables& tables) {
  const KvCache cache = cache_of(layer);
  const std::size_t head = parameters_->head_size;
  for (std::size_t row = 0; row < rows_;) {
    const std::size_t run = run_length(tokens, row);
    for (const HeadGroup& group : groups_) {
      const std::size_t at = row * query_width_ + group.begin * head;
      Queries queries;
      queries.kv_head = group.kv_head;
      queries.heads = group.heads;
      queries.tokens = run;
      queries.position = tokens[row].position;
      queries.window = parameters_->layers[layer].window;
      queries.in = query_.data() + at;
      queries.in_stride = query_width_;
      queries.out = attended_.data() + at;
      queries.out_stride = query_width_;
      attend(cache, tables[tokens[row].sequence], queries);
    }
    row += run;
  }
}

void Transformer::feed_forward(std::uint32_t layer) {
  const Stopwatch stopwatch(phase_times_.feed_forward);
  const LayerWeights& weights = weights_->layer(layer);
  const std::size_t hidden = parameters_->hidden;
  inputs_->set({normed_.data(), rows_ * hidden}, rows_, hidden,
               form_of({&weights.gate, &weights.up}));
  multiply(weights.gate, *inputs_, gate_.data(), feed_forward_width_);
  multiply(weights.up, *inputs_, up_.data(), feed_forward_width_);
  const std::span<float> gate(gate_.data(), std::size_t{rows_} * feed_forward_width_);
  const std::span<float> up(up_.data(), gate.size());
  add_bias(gate, weights.gate_bias);
  add_bias(up, weights.up_bias);
  silu_multiply(gate, up, gate);
  inputs_->set(gate, rows_, feed_forward_width_, form_of({&weights.down}));
  sum_partially(weights.down, feed_forward_phase_);
  look_for_nan(2 * layer + 1);
}

void Transformer::sum_partially(const MatrixView& matrix, const Phase& phase) {
  if (phase.leaves.empty()) {
    multiply(matrix, *inputs_, partials_->own(0), partials_->stride());
    return;
  }
  for (std::uint32_t index = 0; index < phase.subtrees.size(); ++index) {
    sum_subtree(matrix, phase, phase.subtrees[index], partials_->own(index), 0);
  }
}

// A fixed order of additions, so one product for each leaf; see split/reduction_tree.hpp.
void Transformer::sum_subtree(const MatrixView& matrix, const Phase& phase, const Range& subtree,
                              float* out, std::size_t scratch_at) {
  const std::size_t stride = partials_->stride();
  if (subtree.size() == 1) {
    const Leaf& leaf = phase.leaves[subtree.begin - phase.first_leaf];
    multiply(matrix.columns(leaf.begin, leaf.end), {*inputs_, leaf.begin}, out, stride);
    return;
  }
  const std::uint32_t middle = middle_of(subtree);
  sum_subtree(matrix, phase, {subtree.begin, middle}, out, scratch_at);
  float* const right = leaf_sums_.data() + scratch_at;
  sum_subtree(matrix, phase, {middle, subtree.end}, right, scratch_at + limits_.rows * stride);
  for (std::size_t at = 0; at < rows_ * stride; ++at) out[at] += right[at];
}

Result<void> Transformer::exchange(const Phase& phase, std::span<const float> bias,
                                   std::span<const float> norm) {
  const Stopwatch stopwatch(phase_times_.exchange);
  IMEX_CHECK_OK(partials_->run(phase.order, rows_));
  const std::size_t hidden = parameters_->hidden;
  for (std::uint32_t row = 0; row < rows_; ++row) {
    add_rms_norm({stream_.data() + row * hidden, hidden},
                 partials_->terms(row, bias.empty() ? nullptr : bias.data()), norm,
                 parameters_->norm_epsilon, {normed_.data() + row * hidden, hidden});
  }
  partials_->finish(*exchange_times_);
  return {};
}

void Transformer::head(std::span<const std::uint32_t> rows, float* out,
                       std::size_t stride) noexcept {
  const Stopwatch stopwatch(phase_times_.head);
  const std::size_t hidden = parameters_->hidden;
  IMEX_ASSERT(rows.size() <= limits_.rows, "as many rows as a step has tokens");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(normed_.data() + rows[i] * hidden, hidden, head_in_.data() + i * hidden);
  }
  inputs_->set({head_in_.data(), rows.size() * hidden}, rows.size(), hidden,
               form_of({&weights_->head()}));
  multiply(weights_->head(), *inputs_, out, stride);
}

Result<std::uint32_t> Transformer::find_nan(std::span<const StepToken> tokens,
                                            const BlockTables& tables) {
  looks_for_nan_ = true;
  nan_phase_ = kNoPhase;
  const auto done = run(tokens, tables);
  looks_for_nan_ = false;
  IMEX_CHECK_OK(done);
  return nan_phase_;
}

void Transformer::look_for_nan(std::uint32_t phase) noexcept {
  if (!looks_for_nan_ || nan_phase_ != kNoPhase) return;
  for (std::uint32_t row = 0; row < rows_; ++row) {
    if (has_nan({partials_->own(0) + row * partials_->stride(), parameters_->hidden})) {
      nan_phase_ = phase;
    }
  }
}

void Transformer::reset_times() noexcept {
  *exchange_times_ = {};
  phase_times_ = {};
}

}  // namespace imex::inference
