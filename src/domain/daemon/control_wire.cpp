#include "control_wire.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <imex/control/v1/control.pb.h>

namespace imex::domain {

namespace {

constexpr std::size_t kWorkloadMax = 128;
constexpr int kGpusMax = 256;

Result<void> check_workload(const std::string& workload) {
  const auto printable = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (!workload.empty() && workload.size() <= kWorkloadMax &&
      std::ranges::all_of(workload, printable)) {
    return {};
  }
  return fail(Errc::kInvalidArgument,
              fmt::format("a workload's name has 1 to {} printable characters without blanks",
                          kWorkloadMax));
}

}  // namespace

Result<GrantAsked> read_grant(const control::v1::GrantRequest& request) {
  IMEX_CHECK_OK(check_workload(request.workload()));
  if (request.gpu_uids_size() > kGpusMax || request.gpu_indexes_size() > kGpusMax) {
    return fail(Errc::kInvalidArgument, fmt::format("a grant names at most {} GPUs", kGpusMax));
  }
  GrantAsked asked{request.workload(),
                   {request.gpu_uids().begin(), request.gpu_uids().end()},
                   {request.gpu_indexes().begin(), request.gpu_indexes().end()},
                   {}};
  if (request.has_uid()) asked.uid = request.uid();
  return asked;
}

Result<std::string> read_release(const control::v1::ReleaseRequest& request) {
  IMEX_CHECK_OK(check_workload(request.workload()));
  return request.workload();
}

}  // namespace imex::domain
