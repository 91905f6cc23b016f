/// Options of a component as a table: name, type, range, default, help. The table feeds parsing,
/// "config show" and the reference page, so that none of them can drift from the others.
///
///     OptionTable<ServerConfig> table(ServerConfig{});           // its member values are the
///     defaults table.integer("SERVER_PORT", &ServerConfig::port, {1, 65'535}, "TCP port for
///     peers.")
///          .string("SERVER_KEY", [](auto& c) -> auto& { return c.tls.key; }, "Path of the key.");
///     auto loaded = table.defaults();
///     table.apply_text(loaded, text, "server.cfg");              // collects problems, never stops
///     table.apply(loaded, "SERVER_PORT", "50001", "option --port");
///     IMEX_CHECK_OK(loaded.findings.check());                    // all problems in one error
///     use(loaded.config);
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "config/key_value.hpp"

namespace imex::config {

/// Bounds of a number, both allowed.
struct IntegerRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
/// `high` = UINT64_MAX: the word "unlimited" is accepted as well and stands for it.
struct SizeRange {
  std::uint64_t low = 0, high = UINT64_MAX;
};
/// `minus_one`: "-1" is accepted as well and stands for Nanos(-1); the text says what it means.
struct DurationRange {
  Nanos low{0}, high = Nanos::max();
  std::string minus_one{};
};
/// A word of a choice and the value that it stands for.
template <class T>
struct Word {
  std::string text;
  T value;
};

/// One option as a person sees it.
struct OptionRow {
  std::string key, value, source, help;
  std::string form;           ///< accepted values in words: "1 to 65535"
  std::string default_value;  ///< as it would be written
};

/// A page with one table row per option.
[[nodiscard]] std::string markdown_page(std::string_view title, std::string_view introduction,
                                        const std::vector<OptionRow>& rows);

// Text <-> value for each type. What format_* gives, parse_* reads back to the same value.
[[nodiscard]] Result<bool> parse_bool(std::string_view text);
[[nodiscard]] Result<std::uint64_t> parse_size_in(std::string_view text, SizeRange range);
[[nodiscard]] Result<Nanos> parse_duration_in(std::string_view text, const DurationRange& range);
[[nodiscard]] std::string format_exact_size(std::uint64_t bytes, SizeRange range);
[[nodiscard]] std::string format_exact_duration(Nanos duration);
[[nodiscard]] std::string describe(IntegerRange range);
[[nodiscard]] std::string describe(SizeRange range);
[[nodiscard]] std::string describe(const DurationRange& range);
[[nodiscard]] Error not_one_of(std::string_view text, const std::string& words);
[[nodiscard]] Result<std::int64_t> parse_integer_in(std::string_view text, IntegerRange range);
/// Value of a variable of the environment.
[[nodiscard]] std::optional<std::string> environment_variable(const std::string& name);

/// `Access` below is a pointer to a member, or a function from the configuration to a reference.
template <class Config>
class OptionTable {
 public:
  using Setter = std::function<Result<void>(Config&, std::string_view)>;
  using Getter = std::function<std::string(const Config&)>;
  using Lookup = std::function<std::optional<std::string>(const std::string&)>;

  /// A configuration on its way, and where each of its values came from.
  struct Loaded {
    Config config;
    std::vector<std::string> sources;  ///< by position in the table
    std::vector<std::string> unused;   ///< texts of options without effect, by position
    Findings findings;
  };

  explicit OptionTable(Config defaults) : defaults_(std::move(defaults)) {}

  // Adders; the order of calls is the order of every listing. A name is added once.

  /// Empty text is a value like any other.
  template <class Access>
  OptionTable& string(std::string name, Access access, std::string help,
                      std::string form = "text") {
    return custom(
        std::move(name), std::move(form),
        [access](Config& config, std::string_view text) -> Result<void> {
          std::invoke(access, config) = std::string(text);
          return {};
        },
        [access](const Config& config) { return std::string(read(access, config)); },
        std::move(help));
  }

  /// 0 and 1, and the usual words for them.
  template <class Access>
  OptionTable& boolean(std::string name, Access access, std::string help) {
    add(
        std::move(name), "0 or 1",
        [access](Config& config, std::string_view text) -> Result<void> {
          IMEX_TRY(const bool value, parse_bool(text));
          std::invoke(access, config) = value;
          return {};
        },
        [access](const Config& config) { return std::string(read(access, config) ? "1" : "0"); },
        std::move(help));
    return *this;
  }

  /// The range must lie within that of the member's type.
  template <class Access>
  OptionTable& integer(std::string name, Access access, IntegerRange range, std::string help) {
    using T = Member<Access>;
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
    IMEX_ASSERT(std::in_range<T>(range.low) && std::in_range<T>(range.high),
                "range exceeds the member");
    add(
        std::move(name), describe(range),
        [access, range](Config& config, std::string_view text) -> Result<void> {
          IMEX_TRY(const std::int64_t value, parse_integer_in(text, range));
          std::invoke(access, config) = static_cast<T>(value);
          return {};
        },
        [access](const Config& config) { return std::to_string(read(access, config)); },
        std::move(help));
    return *this;
  }

  /// Bytes, in std::uint64_t.
  template <class Access>
  OptionTable& size(std::string name, Access access, SizeRange range, std::string help) {
    static_assert(std::is_same_v<Member<Access>, std::uint64_t>);
    add(
        std::move(name), describe(range),
        [access, range](Config& config, std::string_view text) -> Result<void> {
          IMEX_TRY(std::invoke(access, config), parse_size_in(text, range));
          return {};
        },
        [access, range](const Config& config) {
          return format_exact_size(read(access, config), range);
        },
        std::move(help));
    return *this;
  }

  /// In Nanos; a bare number is seconds.
  template <class Access>
  OptionTable& duration(std::string name, Access access, DurationRange range, std::string help) {
    static_assert(std::is_same_v<Member<Access>, Nanos>);
    add(
        std::move(name), describe(range),
        [access, range](Config& config, std::string_view text) -> Result<void> {
          IMEX_TRY(std::invoke(access, config), parse_duration_in(text, range));
          return {};
        },
        [access](const Config& config) { return format_exact_duration(read(access, config)); },
        std::move(help));
    return *this;
  }

  /// One of some words, matched exactly. For a value with two words the first is the one shown.
  template <class Access>
  OptionTable& choice(
      std::string name, Access access,
      std::vector<Word<typename std::remove_cvref_t<std::invoke_result_t<Access, Config&>>>> words,
      std::string help) {
    std::string form;
    for (const auto& word : words) {
      form += (form.empty() ? "" : ", ") + (word.text.empty() ? std::string("empty") : word.text);
    }
    const bool has_empty =
        std::any_of(words.begin(), words.end(), [](const auto& word) { return word.text.empty(); });
    Getter getter = [access, words](const Config& config) {
      const auto value = read(access, config);
      for (const auto& word : words) {
        if (word.value == value) return word.text;
      }
      return std::string();
    };
    Setter setter = [access, words, form](Config& config, std::string_view text) -> Result<void> {
      for (const auto& word : words) {
        if (word.text != text) continue;
        std::invoke(access, config) = word.value;
        return {};
      }
      return fail(not_one_of(text, form));
    };
    add(std::move(name), form, std::move(setter), std::move(getter), std::move(help));
    options_.back().empty_is_default = !has_empty;
    return *this;
  }

  /// Any other type: `set` checks and stores (the empty text too), `get` gives the text back.
  OptionTable& custom(std::string name, std::string form, Setter set, Getter get,
                      std::string help) {
    add(std::move(name), std::move(form), std::move(set), std::move(get), std::move(help));
    options_.back().empty_is_default = false;
    return *this;
  }

  /// A key that exists but does nothing here: any text is taken, one other than the default with a
  /// warning that says why.
  OptionTable& without_effect(std::string name, std::string default_value, std::string why,
                              std::string help) {
    add(std::move(name), "text; no effect: " + why, {}, {}, std::move(help));
    options_.back().default_value = std::move(default_value);
    options_.back().no_effect = std::move(why);
    return *this;
  }

  /// The option added last holds a secret: listings and messages show *** in place of its value.
  OptionTable& secret() {
    IMEX_ASSERT(!options_.empty(), "secret() follows an adder");
    options_.back().secret = true;
    return *this;
  }

  // Loading.

  [[nodiscard]] Loaded defaults() const {
    Loaded loaded{defaults_, std::vector<std::string>(options_.size(), "default"), {}, {}};
    for (const Option& option : options_) loaded.unused.push_back(option.default_value);
    return loaded;
  }

  /// KEY=VALUE text; unknown keys become warnings. `file` names it in messages and sources.
  void apply_text(Loaded& loaded, std::string_view text, std::string_view file) const {
    for (const Assignment& line : parse_key_values(text, file, loaded.findings)) {
      std::string where = std::string(file) + ":" + std::to_string(line.line_number);
      if (const auto index = find(line.key)) {
        set(loaded, *index, line.value, where);
      } else {
        loaded.findings.warning({std::move(where), line.key, "unknown key, ignored"});
      }
    }
  }

  /// One value that overrides what was there. An unknown key is an error.
  void apply(Loaded& loaded, std::string_view key, std::string_view value,
             std::string source) const {
    if (const auto index = find(key)) {
      set(loaded, *index, value, std::move(source));
    } else {
      loaded.findings.error({std::move(source), std::string(key), "unknown key"});
    }
  }

  /// Variables named `prefix` + name of the option. Values of the form tcp://... are skipped:
  /// Kubernetes injects such variables for a Service whose name fits.
  void apply_environment(Loaded& loaded, const std::string& prefix,
                         const Lookup& lookup = environment_variable) const {
    for (std::size_t index = 0; index < options_.size(); ++index) {
      const std::string variable = prefix + options_[index].name;
      const auto value = lookup(variable);
      if (!value || value->starts_with("tcp://")) continue;
      set(loaded, index, *value, "environment " + variable);
    }
  }

  // Showing.

  [[nodiscard]] std::vector<OptionRow> rows(const Loaded& loaded) const {
    std::vector<OptionRow> result;
    for (std::size_t index = 0; index < options_.size(); ++index) {
      const Option& option = options_[index];
      std::string value = option.get ? option.get(loaded.config) : loaded.unused[index];
      if (option.secret && !value.empty()) value = "***";
      result.push_back(
          {option.name, std::move(value), loaded.sources[index], option.help, option.form,
           option.secret && !option.default_value.empty() ? "***" : option.default_value});
    }
    return result;
  }

  [[nodiscard]] std::string markdown(std::string_view title, std::string_view introduction) const {
    return markdown_page(title, introduction, rows(defaults()));
  }

 private:
  template <class Access>
  using Member = std::remove_cvref_t<std::invoke_result_t<Access, Config&>>;

  struct Option {
    std::string name, form, default_value, help;
    Setter set;  ///< none: without effect
    Getter get;
    std::string no_effect{};
    bool empty_is_default = true;
    bool secret = false;
  };

  /// By value and from a copy, so that a function from `Config&` will do.
  template <class Access>
  static Member<Access> read(const Access& access, Config config) {
    return std::invoke(access, config);
  }

  void add(std::string name, std::string form, Setter setter, Getter getter, std::string help) {
    IMEX_ASSERT(!find(name), "an option's name is added once");
    std::string default_value = getter ? getter(defaults_) : std::string();
    options_.push_back({std::move(name), std::move(form), std::move(default_value), std::move(help),
                        std::move(setter), std::move(getter)});
  }

  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const {
    for (std::size_t index = 0; index < options_.size(); ++index) {
      if (options_[index].name == name) return index;
    }
    return std::nullopt;
  }

  void set(Loaded& loaded, std::size_t index, std::string_view text, std::string source) const {
    const Option& option = options_[index];
    if (!option.set) {
      if (text != option.default_value && !text.empty()) {
        loaded.findings.warning({source, option.name, "has no effect: " + option.no_effect});
      }
      loaded.unused[index] = std::string(text);
    } else {
      const bool to_default = text.empty() && option.empty_is_default;
      const auto done =
          option.set(loaded.config, to_default ? std::string_view(option.default_value) : text);
      if (!done) {
        loaded.findings.error(
            {std::move(source), option.name,
             option.secret ? "value does not fit: " + option.form : message(done.error())});
        return;
      }
    }
    loaded.sources[index] = std::move(source);
  }

  static std::string message(const Error& error) {
    return error.hint.empty() ? error.message : error.message + "; " + error.hint;
  }

  Config defaults_;
  std::vector<Option> options_;
};

}  // namespace imex::config
