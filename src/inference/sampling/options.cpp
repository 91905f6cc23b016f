#include "inference/sampling/options.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace imex::inference {
namespace {

/// All that is wrong, in one message.
class Complaints {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    if (!text_.empty()) text_ += "; ";
    fmt::format_to(std::back_inserter(text_), text, std::forward<Args>(args)...);
  }
  /// A NaN is in no range.
  void check_range(std::string_view name, float value, float low, float high) {
    if (value >= low && value <= high) return;
    add("{} must lie in {} to {}, found {}", name, low, high, value);
  }
  [[nodiscard]] Result<void> result() && {
    if (text_.empty()) return {};
    return fail(Errc::kInvalidArgument, std::move(text_),
                "mend the request: every option left out has a default that changes nothing");
  }

 private:
  std::string text_;
};

}  // namespace

Result<void> validate(const SamplingOptions& options, std::uint32_t vocabulary) {
  Complaints complaints;
  std::vector<std::uint32_t> biased;
  for (const auto& [id, bias] : options.logit_bias) {
    if (id >= vocabulary) {
      complaints.add("logit_bias names token {}, the vocabulary has {}", id, vocabulary);
    }
    complaints.check_range(fmt::format("logit_bias of token {}", id), bias, -100, 100);
    biased.push_back(id);
  }
  std::sort(biased.begin(), biased.end());
  if (const auto twice = std::adjacent_find(biased.begin(), biased.end()); twice != biased.end()) {
    complaints.add("logit_bias names token {} twice", *twice);
  }
  complaints.check_range("repetition_penalty", options.repetition_penalty, 0.01F, 100);
  complaints.check_range("frequency_penalty", options.frequency_penalty, -2, 2);
  complaints.check_range("presence_penalty", options.presence_penalty, -2, 2);
  complaints.check_range("temperature", options.temperature, 0, 100);
  complaints.check_range("min_p", options.min_p, 0, 1);
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    complaints.add("top_p must be above 0 and at most 1, found {}", options.top_p);
  }
  if (options.logprobs.value_or(0) > kMaxLogprobs) {
    complaints.add("logprobs must be at most {}, found {}", kMaxLogprobs, *options.logprobs);
  }
  return std::move(complaints).result();
}

}  // namespace imex::inference
