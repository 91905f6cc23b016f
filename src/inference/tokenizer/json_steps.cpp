#include "json_steps.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "assembly.hpp"

namespace imex::inference {

namespace {

/// Of all steps that change text, together: "\u2581" in front and for each space is 4 times 3.
constexpr double kGrowthMax = 16;
constexpr std::size_t kStepsMax = 32, kReplacedBytesMax = 1024;

tl::unexpected<Error> unknown_kind(const JsonView& json, std::string_view what,
                                   std::string_view kind, std::string_view known) {
  return fail(Errc::kUnsupported,
              fmt::format("tokenizer.json: '{}': unknown {} '{}'", json.path(), what, kind),
              fmt::format("known are {}", known));
}

/// Calls `use` for each element of the list `name`.
template <class Use>
Result<void> for_each(const JsonView& json, std::string_view name, Use use) {
  IMEX_TRY(const JsonView list, json.member(name));
  IMEX_TRY(const auto elements, list.array());
  std::size_t i = 0;
  for (const simdjson::dom::element element : elements) {
    IMEX_CHECK_OK(use(JsonView(element, fmt::format("{}[{}]", list.path(), i++))));
  }
  return {};
}

Result<std::string_view> kind_of(const JsonView& json) {
  IMEX_TRY(const JsonView type, json.member("type"));
  return type.text();
}

/// The string of {"String": "..."}.
Result<ReplaceText> read_replacement(const JsonView& json) {
  IMEX_TRY(const JsonView pattern, json.member("pattern"));
  const auto literal = pattern.find("String");
  if (!literal) {
    return fail(Errc::kUnsupported,
                fmt::format("tokenizer.json: '{}' replaces by a regular expression", json.path()));
  }
  IMEX_TRY(const auto from, literal->text());
  IMEX_TRY(const JsonView content, json.member("content"));
  IMEX_TRY(const auto to, content.text());
  if (from.empty() || from.size() > kReplacedBytesMax) {
    return pattern.wrong("a string to look for, of up to 1024 bytes");
  }
  return ReplaceText{std::string(from), std::string(to)};
}

Result<std::string_view> prepend_scheme(const JsonView& json) {
  IMEX_TRY(const bool older, json.flag("add_prefix_space", true));
  return json.text_or("prepend_scheme", older ? "always" : "never");
}

Result<void> read_metaspace(const JsonView& json, TokenizerParts& parts) {
  IMEX_TRY(const auto replacement, json.text_or("replacement", kMarkedSpace));
  IMEX_TRY(const auto scheme, prepend_scheme(json));
  IMEX_TRY(const bool cut, json.flag("split", true));
  if (replacement != kMarkedSpace) {
    return unknown_kind(json, "replacement", replacement, kMarkedSpace);
  }
  parts.space = replacement;
  if (scheme == "always" || scheme == "first") {
    parts.prefix = {.text = parts.space, .only_at_start = scheme == "first", .unless_there = true};
  } else if (scheme != "never") {
    return unknown_kind(json, "prepend_scheme", scheme, "always, first, never");
  }
  if (cut) parts.splitters.push_back({.kind = Splitter::Kind::kBeforeMark, .rules = {}});
  return {};
}

Result<void> read_split(const JsonView& json, TokenizerParts& parts) {
  IMEX_TRY(const JsonView pattern, json.member("pattern"));
  const auto regex = pattern.find("Regex");
  if (!regex) return unknown_kind(pattern, "pattern", "String", "Regex");
  IMEX_TRY(const auto text, regex->text());
  const auto rules = find_word_rules(text);
  if (!rules) {
    return unknown_kind(pattern, "pattern", text,
                        "those of GPT-2, Llama 3, Qwen 2 and Mistral's Tekken");
  }
  IMEX_TRY(const auto behaviour, json.text_or("behavior", "Isolated"));
  IMEX_TRY(const bool inverted, json.flag("invert", false));
  // The pattern matches every character, so to keep the matches and to drop the rest is the same.
  const bool all_pieces =
      (behaviour == "Isolated" && !inverted) || (behaviour == "Removed" && inverted);
  if (!all_pieces) return unknown_kind(json, "behavior", behaviour, "Isolated");
  parts.splitters.push_back({.kind = Splitter::Kind::kWords, .rules = *rules});
  return {};
}

Result<void> read_byte_level(const JsonView& json, TokenizerParts& parts, PreTokenizing& facts) {
  facts.byte_level = true;
  IMEX_TRY(const bool prefix, json.flag("add_prefix_space", true));
  IMEX_TRY(const bool words, json.flag("use_regex", true));
  if (prefix && !parts.splitters.empty()) {
    return unknown_kind(json, "add_prefix_space", "true", "false after another pre-tokenizer");
  }
  if (prefix) parts.prefix = {.text = " ", .only_at_start = false, .unless_there = true};
  if (words) parts.splitters.push_back({.kind = Splitter::Kind::kWords, .rules = gpt2_rules()});
  return {};
}

}  // namespace

Result<void> read_normalizer(const JsonView& json, TokenizerParts& parts) {
  IMEX_TRY(const auto kind, kind_of(json));
  if (kind == "Sequence") {
    return for_each(json, "normalizers",
                    [&](const JsonView& one) { return read_normalizer(one, parts); });
  }
  if (kind == "Prepend") {
    IMEX_TRY(const JsonView member, json.member("prepend"));
    IMEX_TRY(const auto text, member.text());
    parts.normalizer.emplace_back(PrependText{std::string(text)});
    return {};
  }
  if (kind == "Replace") {
    IMEX_TRY(auto replacement, read_replacement(json));
    parts.normalizer.emplace_back(std::move(replacement));
    return {};
  }
  if (kind == "NFC") {
    parts.normalizer.emplace_back(ComposeNfc{});
    return {};
  }
  return unknown_kind(json, "normalizer", kind, "Sequence, Prepend, Replace, NFC");
}

Result<void> read_pre_tokenizer(const JsonView& json, TokenizerParts& parts, PreTokenizing& facts) {
  IMEX_TRY(const auto kind, kind_of(json));
  if (kind == "Sequence") {
    return for_each(json, "pretokenizers",
                    [&](const JsonView& one) { return read_pre_tokenizer(one, parts, facts); });
  }
  if (kind == "Split") return read_split(json, parts);
  if (kind == "ByteLevel") return read_byte_level(json, parts, facts);
  if (kind == "Metaspace") return read_metaspace(json, parts);
  if (kind == "Digits") {
    IMEX_TRY(const bool single, json.flag("individual_digits", false));
    parts.splitters.push_back(
        {.kind = single ? Splitter::Kind::kDigits : Splitter::Kind::kDigitRuns, .rules = {}});
    return {};
  }
  return unknown_kind(json, "pre-tokenizer", kind, "Sequence, Split, ByteLevel, Metaspace, Digits");
}

Result<void> read_decoder(const JsonView& json, TokenizerParts& parts, TokenDecoding& decoding) {
  IMEX_TRY(const auto kind, kind_of(json));
  if (kind == "Sequence") {
    return for_each(json, "decoders",
                    [&](const JsonView& one) { return read_decoder(one, parts, decoding); });
  }
  if (kind == "Fuse") return {};
  if (kind == "ByteFallback") {
    decoding.byte_fallback = true;
    return {};
  }
  if (kind == "ByteLevel") {
    decoding.byte_level = true;
    return {};
  }
  if (kind == "Replace") {
    IMEX_TRY(auto replacement, read_replacement(json));
    decoding.replacements.push_back(std::move(replacement));
    return {};
  }
  if (kind == "Metaspace") {
    IMEX_TRY(const auto scheme, prepend_scheme(json));
    decoding.replacements.push_back({std::string(kMarkedSpace), " "});
    if (scheme != "never") parts.strip_spaces = 1;
    return {};
  }
  if (kind == "Strip") {
    IMEX_TRY(const auto content, json.text_or("content", " "));
    IMEX_TRY(const JsonView start_member, json.member("start"));
    IMEX_TRY(const auto start, start_member.count());
    IMEX_TRY(const JsonView stop_member, json.member("stop"));
    IMEX_TRY(const auto stop, stop_member.count());
    if (content != " " || stop != 0 || start > 16) {
      return unknown_kind(json, "way to strip", content, "spaces at the start");
    }
    parts.strip_spaces = start;
    return {};
  }
  return unknown_kind(json, "decoder", kind,
                      "Sequence, Replace, ByteFallback, ByteLevel, Metaspace, Fuse, Strip");
}

namespace {

/// The ids of the special token `name` of a template.
Result<void> append_template_ids(const JsonView& processor, std::string_view name, Ids& out) {
  IMEX_TRY(const JsonView specials, processor.member("special_tokens"));
  IMEX_TRY(const JsonView special, specials.member(name));
  return for_each(special, "ids", [&](const JsonView& id) -> Result<void> {
    IMEX_TRY(const auto value, id.count());
    out.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX)));
    return {};
  });
}

Result<void> read_template(const JsonView& json, TokenizerParts& parts) {
  bool after_text = false;
  IMEX_CHECK_OK(for_each(json, "single", [&](const JsonView& item) -> Result<void> {
    if (item.find("Sequence")) {
      after_text = true;
      return {};
    }
    IMEX_TRY(const JsonView token, item.member("SpecialToken"));
    IMEX_TRY(const JsonView id, token.member("id"));
    IMEX_TRY(const auto name, id.text());
    return append_template_ids(json, name, after_text ? parts.end : parts.begin);
  }));
  for (const Ids* ids : {&parts.begin, &parts.end}) {
    for (const std::uint32_t id : *ids) {
      if (id >= parts.vocabulary.size()) return json.wrong("a template of known tokens");
    }
  }
  return {};
}

}  // namespace

namespace {

/// Bytes that come out for each byte that goes in, at most.
double growth_of(const ReplaceText& step) {
  return std::max(1.0, static_cast<double>(step.to.size()) / static_cast<double>(step.from.size()));
}
double growth_of(const PrependText& step) {  // a section has at least one byte
  return 1.0 + static_cast<double>(step.text.size());
}
double growth_of(const ComposeNfc&) { return 1; }  // or three, once, by Unicode's own bound

}  // namespace

Result<void> check_steps(const TokenizerParts& parts, const TokenDecoding& decoding) {
  const std::size_t steps =
      std::max({parts.normalizer.size(), parts.splitters.size(), decoding.replacements.size()});
  if (steps > kStepsMax) {
    return fail(Errc::kUnsupported, fmt::format("tokenizer.json: {} steps of one kind", steps),
                fmt::format("at most {} are read", kStepsMax));
  }
  double encoding = 1;
  for (const NormalizerStep& step : parts.normalizer) {
    encoding *= std::visit([](const auto& one) { return growth_of(one); }, step);
  }
  double shown = 1;
  for (const ReplaceText& step : decoding.replacements) shown *= growth_of(step);
  if (std::max(encoding, shown) <= kGrowthMax) return {};
  return fail(
      Errc::kUnsupported,
      fmt::format("tokenizer.json: its {} make text up to {:.0f} times as long",
                  encoding > kGrowthMax ? "normalizers" : "decoders", std::max(encoding, shown)),
      fmt::format("at most {:.0f} times is read", kGrowthMax));
}

Result<void> read_post_processor(const JsonView& json, TokenizerParts& parts) {
  IMEX_TRY(const auto kind, kind_of(json));
  if (kind == "Sequence") {
    return for_each(json, "processors",
                    [&](const JsonView& one) { return read_post_processor(one, parts); });
  }
  if (kind == "ByteLevel") return {};  // offsets only
  if (kind == "TemplateProcessing") return read_template(json, parts);
  return unknown_kind(json, "post-processor", kind, "Sequence, ByteLevel, TemplateProcessing");
}

}  // namespace imex::inference
