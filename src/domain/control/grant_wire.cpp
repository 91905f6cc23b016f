#include "grant_wire.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <imex/control/v1/control.pb.h>

namespace imex::domain {

namespace {

constexpr std::size_t kTextBytesMax = 4096;  // a path; workloads are shorter

bool is_text(const std::string& text) {
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  return text.size() <= kTextBytesMax && std::ranges::none_of(text, control);
}

}  // namespace

Result<std::vector<ChannelGrant>> from_proto(const control::v1::ListReply& reply) {
  std::vector<ChannelGrant> grants;
  for (const control::v1::Grant& grant : reply.grants()) {
    if (!is_text(grant.workload()) || !is_text(grant.path())) {
      return fail(Errc::kDataLoss,
                  fmt::format("the daemon lists channel {} with a name or path that is no text",
                              grant.channel()));
    }
    grants.push_back({grant.workload(),
                      grant.channel(),
                      grant.path(),
                      grant.uid(),
                      {grant.gpu_uids().begin(), grant.gpu_uids().end()}});
  }
  return grants;
}

}  // namespace imex::domain
