#include "rack/control_client.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "os/socket.hpp"

namespace imex::rack {

using nlohmann::json;

namespace {

constexpr std::size_t kPacketBytes = 32U << 10U, kAnswerBytesMax = 64U << 20U;

Errc code_of(const std::string& name) {
  for (std::uint32_t number = 1; number <= static_cast<std::uint32_t>(Errc::kInternal); ++number) {
    if (errc_name(errc_from_number(number)) == name) return errc_from_number(number);
  }
  return Errc::kInternal;
}

/// The answer, or the error that it carries.
Result<std::string> checked(std::string answer) try {
  const json parsed = json::parse(answer);
  if (parsed.at("ok").get<bool>()) return answer;
  Error error;
  error.code = code_of(parsed.at("error").at("code").get<std::string>());
  error.message = parsed.at("error").at("message").get<std::string>();
  error.hint = parsed.at("error").value("hint", std::string());
  return fail(std::move(error));
} catch (const json::exception& error) {
  return fail(Errc::kDataLoss, fmt::format("answer of the rack: {}", error.what()));
}

Result<std::uint64_t> number_in(const std::string& answer, const char* key) try {
  return json::parse(answer).at(key).get<std::uint64_t>();
} catch (const json::exception& error) {
  return fail(Errc::kDataLoss, fmt::format("answer of the rack: {}", error.what()));
}

}  // namespace

Result<ControlClient> ControlClient::connect(const std::string& path,
                                             std::chrono::milliseconds timeout) {
  IMEX_TRY(os::UniqueFd socket, os::connect_unix(path, timeout));
  return ControlClient(std::move(socket), timeout);
}

Result<std::string> ControlClient::call(const std::string& request) {
  const std::string line = request + "\n";
  for (std::size_t at = 0; at < line.size(); at += kPacketBytes) {
    const auto bytes =
        std::as_bytes(std::span(line)).subspan(at, std::min(kPacketBytes, line.size() - at));
    IMEX_CHECK_OK(os::send_packet(socket_.get(), bytes));
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  std::string answer;
  std::array<char, kPacketBytes> buffer;
  while (!answer.ends_with('\n')) {
    IMEX_CHECK_OK(os::wait_readable(socket_.get(), deadline));
    IMEX_TRY(const os::Packet packet,
             os::receive_packet(socket_.get(), std::as_writable_bytes(std::span(buffer)), false));
    if (packet.bytes == 0)
      return fail(Errc::kUnavailable, "the rack closed the control connection");
    answer.append(buffer.data(), packet.bytes);
    if (answer.size() > kAnswerBytesMax)
      return fail(Errc::kDataLoss, "answer of the rack: too long");
  }
  answer.pop_back();
  return checked(std::move(answer));
}

Result<std::uint64_t> ControlClient::set_fault(const FaultRequest& fault) {
  json request = {{"op", "fault-set"}, {"kind", fault.kind}};
  const auto put = [&](const char* key, const auto& field) {
    if (field) request[key] = *field;
  };
  put("tray", fault.tray);
  put("switch_tray", fault.switch_tray);
  put("chip", fault.chip);
  put("trunk", fault.trunk);
  put("gpu", fault.gpu);
  put("link", fault.link);
  put("partition", fault.partition);
  put("count", fault.count);
  put("number", fault.number);
  put("probability", fault.probability);
  put("after_ms", fault.after_ms);
  put("for_ms", fault.for_ms);
  put("delay_ms", fault.delay_ms);
  if (!fault.domain.empty()) request["domain"] = fault.domain;
  if (!fault.method.empty()) request["method"] = fault.method;
  if (!fault.text.empty()) request["text"] = fault.text;
  IMEX_TRY(const std::string answer, call(request.dump()));
  return number_in(answer, "id");
}

Result<void> ControlClient::clear_fault(const std::string& domain, std::uint64_t id) {
  json request = {{"op", "fault-clear"}, {"id", id}};
  if (!domain.empty()) request["domain"] = domain;
  IMEX_TRY([[maybe_unused]] const std::string answer, call(request.dump()));
  return {};
}

Result<void> ControlClient::clear_manager_fault(std::uint64_t id) {
  const json request = {{"op", "fault-clear"}, {"id", id}, {"manager", true}};
  IMEX_TRY([[maybe_unused]] const std::string answer, call(request.dump()));
  return {};
}

Result<std::uint64_t> ControlClient::clear_faults(const std::string& domain,
                                                  const std::string& kind) {
  json request = {{"op", "fault-clear"}};
  if (!domain.empty()) request["domain"] = domain;
  if (!kind.empty()) request["kind"] = kind;
  IMEX_TRY(const std::string answer, call(request.dump()));
  return number_in(answer, "cleared");
}

Result<void> ControlClient::reset_gpu(const std::string& domain, std::uint32_t tray,
                                      std::optional<std::uint32_t> gpu) {
  json request = {{"op", "gpu-reset"}, {"tray", tray}};
  if (!domain.empty()) request["domain"] = domain;
  if (gpu) request["gpu"] = *gpu;
  IMEX_TRY([[maybe_unused]] const std::string answer, call(request.dump()));
  return {};
}

}  // namespace imex::rack
