// Answers of the command service, as any machine of the network may give them: the first byte says
// whether a status or a health follows. What is taken is shown as text and as JSON.
#include <cstdint>
#include <string>

#include <imex/command/v1/command.pb.h>
#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "command_wire.hpp"
#include "message_stream.hpp"

namespace {

using namespace imex;
using namespace imex::domain;
using fuzz::is_plain;

void check(const StatusReport& report) {
  IMEX_ASSERT(report.status <= DaemonStatus::kUnavailable, "states are those that are known");
  IMEX_ASSERT(report.peers.size() <= kMaxNodes, "slots are bounded");
  for (std::size_t i = 0; i < report.peers.size(); ++i) {
    IMEX_ASSERT(report.peers[i].node == i, "and in order");
    IMEX_ASSERT(report.peers[i].state <= PairState::kConnected, "pairs as well");
    IMEX_ASSERT(is_plain(report.peers[i].host), "nothing draws on the terminal");
  }
}

/// As nvidia-imex-ctl shows it when this daemon alone answers.
void show(const StatusReport& report) {
  DomainView view;
  for (const PeerReport& peer : report.peers) {
    view.nodes.push_back({peer.node, peer.host, true, {}});
  }
  if (report.node < view.nodes.size()) {
    view.local = report.node;
    view.nodes[report.node].report = report;
  }
  RenderOptions options;
  options.host_names = true;
  IMEX_ASSERT(render_text(view, options).ends_with('\n'), "text ends with its line");
  const std::string json = render_json(view, options);
  IMEX_ASSERT(nlohmann::json::accept(json), "JSON is JSON");
  const auto last = json.rfind("\"status\":\"");
  IMEX_ASSERT(last != std::string::npos &&
                  json.substr(last + 10).find(domain_state_word(domain_state(view))) == 0,
              "the last status is that of the domain: DCGM reads no other");
}

void status(std::span<const std::uint8_t> bytes) {
  command::v1::Status message;
  if (!fuzz::parse(message, bytes)) return;
  const auto report = from_proto(message, "fuzz");
  if (!report) return;
  check(*report);
  show(*report);
}

void health(std::span<const std::uint8_t> bytes) {
  command::v1::Health message;
  if (!fuzz::parse(message, bytes)) return;
  const auto report = from_proto(message, "fuzz");
  if (!report) return;
  check(report->status);
  for (const std::string& problem : report->problems) {
    IMEX_ASSERT(is_plain(problem), "nothing draws on the terminal");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::for_each_choice(data, size, [](std::uint8_t choice, std::span<const std::uint8_t> body) {
    if (choice % 2 == 0) status(body);
    if (choice % 2 == 1) health(body);
  });
  return 0;
}
