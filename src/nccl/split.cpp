#include "split.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "comm.hpp"

namespace imex::nccl {

namespace {

struct Wish {
  std::int32_t color = 0, key = 0;
  std::uint32_t rank = 0;
};

}  // namespace

Result<std::optional<Communicator>> split(Communicator& all, int color, int key) {
  IMEX_TRY(const auto timeout, wait_timeout());
  std::vector<Wish> wishes(all.size());
  const Wish own{.color = color, .key = key, .rank = all.rank()};
  IMEX_CHECK_OK(all.all_gather(&own, wishes.data(), sizeof own));
  std::erase_if(wishes, [&](const Wish& each) { return each.color != color; });
  std::sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
    return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
  });

  // The first of each color makes the place where they meet, and tells all: who else is in which
  // color does not matter to the gather.
  std::optional<Rendezvous> place;
  UniqueId id;
  Result<void> placed;
  if (color >= 0 && wishes.front().rank == own.rank) {
    auto made = Rendezvous::create();
    if (made) {
      id = made->id();
      place.emplace(std::move(*made));
    } else {
      placed = fail(std::move(made).error());  // told after the gather, in which the others are
    }
  }
  std::vector<UniqueId> ids(all.size());
  IMEX_CHECK_OK(all.all_gather(&id, ids.data(), sizeof id));
  IMEX_CHECK_OK(std::move(placed));
  if (color < 0) return std::nullopt;
  const auto self = std::find_if(wishes.begin(), wishes.end(),
                                 [&](const Wish& each) { return each.rank == own.rank; });
  IMEX_TRY(auto made,
           Communicator::create(ids[wishes.front().rank],
                                static_cast<std::uint32_t>(self - wishes.begin()),
                                static_cast<std::uint32_t>(wishes.size()), {.timeout = timeout}));
  return std::optional(std::move(made));
}

}  // namespace imex::nccl
