#include "columns.hpp"

#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "partition/model/json_writer.hpp"

namespace imex::partition {
namespace {

/// Cuts the part up to `separator` off the front of `text`.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

template <class Integer>
bool parse_whole(std::string_view text, Integer& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

sql::Value view_of(const Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell)) return *integer;
  if (const auto* text = std::get_if<std::string>(&cell)) return std::string_view(*text);
  return nullptr;
}

Cell to_cell(const Labels& labels) {
  JsonWriter json;
  json.value(labels);
  return std::move(json).text();
}

// "uid,device_instance,health,partition;…": read and written whole, once per observation.
Cell to_cell(const std::vector<Gpu>& gpus) {
  std::string text;
  for (const Gpu& gpu : gpus)
    fmt::format_to(std::back_inserter(text), "{}{},{},{},{}", text.empty() ? "" : ";", gpu.uid,
                   gpu.device_instance, health_name(gpu.health), gpu.fabric_partition);
  return text;
}

Cell to_cell(const std::vector<std::uint64_t>& uids) { return join_uids(uids); }

std::string join_uids(const std::vector<std::uint64_t>& uids) {
  return fmt::format("{}", fmt::join(uids, ","));
}

Result<std::vector<std::uint64_t>> split_uids(std::string_view text) {
  std::vector<std::uint64_t> uids;
  while (!text.empty())
    if (!parse_whole(cut(text, ','), uids.emplace_back()))
      return fail(Errc::kDataLoss, "a list of GPU uids in the database is damaged");
  return uids;
}

void RowReader::error(std::optional<LastError>& error) {
  if (row_.is_null(column_)) {
    error.reset();
  } else {
    LastError& read_error = error.emplace();
    read(column_, read_error.message);
    read(column_ + 1, read_error.at);
    read(column_ + 2, read_error.count);
  }
  column_ += 3;
}

void RowReader::read(int column, Labels& labels) {
  labels.clear();
  const std::string_view text = row_.text(column);
  if (text == "{}") return;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    damaged_ = true;
    return;
  }
  for (const auto& [name, value] : json.items()) {
    if (value.is_string())
      labels.emplace(name, value.get_ref<const std::string&>());
    else
      damaged_ = true;
  }
}

void RowReader::read(int column, std::vector<Gpu>& gpus) {
  gpus.clear();
  std::string_view text = row_.text(column);
  while (!text.empty()) {
    std::string_view item = cut(text, ';');
    Gpu& gpu = gpus.emplace_back();
    const bool numbers =
        parse_whole(cut(item, ','), gpu.uid) && parse_whole(cut(item, ','), gpu.device_instance);
    const auto health = parse_health(cut(item, ','));
    if (!numbers || !health || !parse_whole(item, gpu.fabric_partition)) {
      damaged_ = true;
      return;
    }
    gpu.health = *health;
  }
}

void RowReader::read(int column, std::vector<std::uint64_t>& uids) {
  auto parsed = split_uids(row_.text(column));
  if (parsed)
    uids = std::move(*parsed);
  else
    damaged_ = true;
}

void RowReader::read_uuid(int column, Uuid& uuid) {
  if (auto parsed = Uuid::parse(row_.text(column)))
    uuid = *parsed;
  else
    damaged_ = true;
}

}  // namespace imex::partition
