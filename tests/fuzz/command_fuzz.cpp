// Answers of the command service, as any machine of the network may give them: the first byte says
// whether a status or a health follows. What is taken is shown as text and as JSON.
#include <algorithm>
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

bool is_plain(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MessageStream stream(data, size);
  while (!stream.empty()) {
    const auto message = stream.next();
    if (message.empty()) continue;
    const auto body = message.subspan(1);
    if (message[0] % 2 == 0) {
      command::v1::Status status;
      if (!fuzz::parse(status, body)) continue;
      const auto report = from_proto(status, "fuzz");
      if (!report) continue;
      check(*report);
      show(*report);
    } else {
      command::v1::Health health;
      if (!fuzz::parse(health, body)) continue;
      const auto report = from_proto(health, "fuzz");
      if (!report) continue;
      check(report->status);
      for (const std::string& problem : report->problems) {
        IMEX_ASSERT(is_plain(problem), "nothing draws on the terminal");
      }
    }
  }
  return 0;
}
