#include "inference/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tokenizer_parts.hpp"
#include "unicode.hpp"
#include "utf8.hpp"

namespace imex::inference {

namespace {

constexpr std::size_t kTextBytesMax = std::size_t{256} << 20U;

/// Carries one text through the steps.
class Encoding {
 public:
  Encoding(const TokenizerParts& parts, const EncodeOptions& options) noexcept
      : parts_(parts), options_(options) {}

  void run(std::string_view text) {
    if (options_.add_special) append(parts_.begin);
    sections(parts_.raw_added, text, [&](std::string_view section, bool first) {
      const std::string normal = normalize(parts_.normalizer, section);
      sections(parts_.normalized_added, normal, [&](std::string_view part, bool first_part) {
        section_to_ids(part, first && first_part);
      });
    });
    if (options_.add_special) append(parts_.end);
  }
  [[nodiscard]] Ids take() { return std::move(ids_); }

 private:
  void append(const Ids& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }

  /// Calls `use` for what lies between added tokens, and appends those.
  template <class Use>
  void sections(const AddedTokens& added, std::string_view text, Use use) {
    std::size_t at = 0;
    while (at < text.size()) {
      const auto match = added.next(text, at, options_.parse_special);
      const std::size_t end = match ? match->begin : text.size();
      if (end != at) use(text.substr(at, end - at), at == 0);
      if (!match) return;
      ids_.push_back(match->id);
      at = match->end;
    }
  }

  void section_to_ids(std::string_view section, bool first) {
    std::string changed;
    const SectionPrefix& prefix = parts_.prefix;
    if (!parts_.space.empty()) {
      changed = replace_all(section, " ", parts_.space);
      section = changed;
    }
    const bool there = prefix.unless_there && section.starts_with(prefix.text);
    if (!prefix.text.empty() && !there && (first || !prefix.only_at_start)) {
      changed = prefix.text + std::string(section);
      section = changed;
    }
    std::vector<std::string_view> pieces;
    split(parts_.splitters, section, pieces);
    for (const std::string_view piece : pieces) {
      std::visit([&](const auto& model) { model.encode(parts_.vocabulary, piece, ids_); },
                 parts_.model);
    }
  }

  const TokenizerParts& parts_;
  const EncodeOptions& options_;
  Ids ids_;
};

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    out += text.substr(at, found - at);
    if (found != text.size()) out += to;
    at = found + from.size();
  }
  return out;
}

std::string normalize(const std::vector<NormalizerStep>& steps, std::string_view text) {
  std::string normal(text);
  for (const NormalizerStep& step : steps) {
    std::visit(Overloaded{[&](const PrependText& prepend) {
                            if (!normal.empty()) normal.insert(0, prepend.text);
                          },
                          [&](const ReplaceText& replace) {
                            normal = replace_all(normal, replace.from, replace.to);
                          },
                          [&](const ComposeNfc&) { normal = to_nfc(normal); }},
               step);
  }
  return normal;
}

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::make_shared<const TokenizerParts>(std::move(parts))) {}

Result<Ids> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kTextBytesMax) {
    return fail(Errc::kInvalidArgument, fmt::format("a text of {} bytes; at most {} are encoded",
                                                    text.size(), kTextBytesMax));
  }
  if (const std::size_t wrong = find_invalid_utf8(text); wrong != std::string_view::npos) {
    return fail(Errc::kInvalidArgument, fmt::format("invalid UTF-8 at byte {} of the text", wrong),
                "convert the text to UTF-8");
  }
  Encoding encoding(*parts_, options);
  encoding.run(text);
  return encoding.take();
}

Result<std::string> Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special) const {
  Detokenizer stream(*this, skip_special);
  std::string text;
  for (const std::uint32_t id : ids) {
    IMEX_TRY(const std::string part, stream.append(id));
    text += part;
  }
  return text + stream.finish();
}

std::uint32_t Tokenizer::size() const noexcept { return parts_->vocabulary.size(); }

bool Tokenizer::is_special(std::uint32_t id) const noexcept {
  return id < size() && parts_->vocabulary.special(id);
}

std::optional<std::uint32_t> Tokenizer::find_added(std::string_view text) const {
  const AddedToken* token = parts_->raw_added.find(text);
  if (token == nullptr) token = parts_->normalized_added.find(normalize(parts_->normalizer, text));
  if (token == nullptr) return std::nullopt;
  return token->id;
}

std::string_view Tokenizer::bytes_of(std::uint32_t id) const noexcept {
  return id < size() ? std::string_view(parts_->vocabulary.output(id)) : std::string_view();
}

Detokenizer::Detokenizer(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      strip_pending_(tokenizer_.parts().strip_spaces) {}

Result<std::string> Detokenizer::append(std::uint32_t id) {
  if (id >= tokenizer_.size()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("token {} of a vocabulary of {}", id, tokenizer_.size()));
  }
  if (skip_special_ && tokenizer_.is_special(id)) return std::string();
  std::string_view bytes = tokenizer_.bytes_of(id);
  while (strip_pending_ != 0 && !bytes.empty()) {
    if (bytes.front() != ' ') {
      strip_pending_ = 0;
    } else {
      bytes.remove_prefix(1);
      --strip_pending_;
    }
  }
  pending_ += bytes;
  std::string text;
  drain_characters(pending_, text);
  return text;
}

std::string Detokenizer::finish() {
  if (pending_.empty()) return {};
  pending_.clear();  // the start of one character, so one sign for it
  return "\xef\xbf\xbd";
}

}  // namespace imex::inference
