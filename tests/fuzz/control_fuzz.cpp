// Messages of the control service, as a client sends them and as a client gets them. The first byte
// of each says which.
#include <cstdint>
#include <string>

#include <imex/control/v1/control.pb.h>

#include "base/assert.hpp"
#include "control_wire.hpp"
#include "grant_wire.hpp"
#include "message_stream.hpp"

namespace {

using namespace imex;
using namespace imex::domain;
using fuzz::is_plain;

void check_workload(const std::string& workload) {
  IMEX_ASSERT(!workload.empty() && workload.size() <= 128, "names are bounded");
  IMEX_ASSERT(is_plain(workload) && workload.find(' ') == std::string::npos, "and printable");
}

void grant(std::span<const std::uint8_t> bytes) {
  control::v1::GrantRequest request;
  if (!fuzz::parse(request, bytes)) return;
  const auto asked = read_grant(request);
  if (!asked) return;
  check_workload(asked->workload);
  IMEX_ASSERT(asked->gpu_uids.size() <= 256 && asked->gpu_indexes.size() <= 256,
              "so are lists of GPUs");
  IMEX_ASSERT(asked->uid.has_value() == request.has_uid(), "no user is made up");
}

void release(std::span<const std::uint8_t> bytes) {
  control::v1::ReleaseRequest request;
  if (!fuzz::parse(request, bytes)) return;
  if (const auto workload = read_release(request)) check_workload(*workload);
}

void list(std::span<const std::uint8_t> bytes) {
  control::v1::ListReply reply;
  if (!fuzz::parse(reply, bytes)) return;
  const auto grants = from_proto(reply);
  if (!grants) return;
  for (const ChannelGrant& each : *grants) {
    IMEX_ASSERT(is_plain(each.workload) && is_plain(each.path), "nothing draws on the terminal");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::for_each_choice(data, size, [](std::uint8_t choice, std::span<const std::uint8_t> body) {
    if (choice % 3 == 0) grant(body);
    if (choice % 3 == 1) release(body);
    if (choice % 3 == 2) list(body);
  });
  return 0;
}
