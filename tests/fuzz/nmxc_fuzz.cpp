// Requests to a simulated fabric controller, as any client may send them: what is between parsing
// and deciding. The first byte of each chooses the request; one domain hears them all, and its
// rules hold after each.
#include <random>

#include "base/assert.hpp"
#include "message_stream.hpp"
#include "nmxc_handlers.hpp"

namespace {

using namespace imex;
using namespace imex::rack;

class FuzzRandom final : public Random {
 public:
  void fill(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(engine_() >> 56U);
  }

 private:
  std::mt19937_64 engine_{1};
};

void check_rules(const Domain& domain) {
  std::uint32_t groups = 0;
  std::set<std::uint64_t> uids;
  for (const auto& [id, partition] : domain.table().all()) {
    IMEX_ASSERT(id != 0 && id <= kPartitionIdMax && id == partition.id, "ids are within bounds");
    IMEX_ASSERT(partition.name.size() <= kNameBytesMax, "names are bounded");
    IMEX_ASSERT(partition.groups % 4 == 0, "groups are fours");
    groups += partition.groups;
    for (const Member& member : partition.members)
      IMEX_ASSERT(uids.insert(member.uid).second, "a GPU is in one partition");
  }
  IMEX_ASSERT(groups + domain.table().groups_left() == kGroupsMax, "groups are within the budget");
}

const nmxc::Moment kMoment{Time{1}, std::chrono::system_clock::time_point()};

template <class Request, class Answer>
void run(Domain& domain, std::span<const std::uint8_t> body) {
  Request request;
  Answer answer;
  if (!fuzz::parse(request, body)) return;
  static_cast<void>(nmxc::handle(domain, request, answer, kMoment));
  IMEX_ASSERT(answer.ByteSizeLong() < (64U << 20U), "answers are bounded");
}

void update(Domain& domain, bool add, std::span<const std::uint8_t> body) {
  nmx_c::UpdatePartitionRequest request;
  nmx_c::UpdatePartitionResponse answer;
  if (!fuzz::parse(request, body)) return;
  static_cast<void>(add ? nmxc::add_gpus(domain, request, answer, kMoment)
                        : nmxc::remove_gpus(domain, request, answer, kMoment));
}

void dispatch(Domain& domain, std::uint8_t choice, std::span<const std::uint8_t> body) {
  using namespace nmx_c;
  switch (choice % 16) {
    case 0:
      return run<CreatePartitionRequest, CreatePartitionResponse>(domain, body);
    case 1:
      return run<DeletePartitionRequest, DeletePartitionResponse>(domain, body);
    case 2:
      return update(domain, true, body);
    case 3:
      return update(domain, false, body);
    case 4:
      return run<GetPartitionInfoListRequest, GetPartitionInfoListResponse>(domain, body);
    case 5:
      return run<GetPartitionIdListRequest, GetPartitionIdListResponse>(domain, body);
    case 6:
      return run<GetGpuInfoListRequest, GetGpuInfoListResponse>(domain, body);
    case 7:
      return run<GetComputeNodeLocationListRequest, GetComputeNodeLocationListResponse>(domain,
                                                                                        body);
    case 8:
      return run<GetSwitchInfoListRequest, GetSwitchInfoListResponse>(domain, body);
    case 9:
      return run<GetConnInfoListRequest, GetConnInfoListResponse>(domain, body);
    case 10:
      return run<SetStaticConfigRequest, nmx_c::ReturnCode>(domain, body);
    case 11:
      return run<GetStaticConfigRequest, StaticConfigResponse>(domain, body);
    case 12:
      return run<SetAdminStateRequest, SetAdminStateResponse>(domain, body);
    case 13:
      return run<DraftSetAdminStateRequest, DraftSetAdminStateResponse>(domain, body);
    case 14:
      return run<GetStateReportRequest, GetStateReportResponse>(domain, body);
    default:
      return run<FactoryResetRequest, nmx_c::ReturnCode>(domain, body);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzRandom random;
  DomainOptions options;
  options.topology = *find_topology("nvl36x2");
  options.personality.small_numbers = true;  // uids from 1001: inputs can name GPUs
  Domain domain(options, random, Time{0});
  fuzz::for_each_choice(data, size, [&](std::uint8_t choice, std::span<const std::uint8_t> body) {
    dispatch(domain, choice, body);
    check_rules(domain);
  });
  return 0;
}
