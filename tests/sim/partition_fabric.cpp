#include "partition_fabric.hpp"

#include <algorithm>

namespace imex::partition_sim {

std::uint32_t place_of(const Truth& truth, std::uint64_t gpu) {
  for (const auto& [id, partition] : truth) {
    if (partition.members.contains(gpu)) return id;
  }
  return 0;
}

Fabric::Fabric(std::vector<std::uint64_t> gpus, bool reuse_ids, std::int64_t bound_ns)
    : reuse_ids_(reuse_ids), bound_ns_(bound_ns) {
  TruthPartition all{"Default Partition", "Default Partition", true, {}};
  for (const std::uint64_t gpu : gpus) {
    gpus_[gpu] = true;
    all.members[gpu] = {true, 0};
  }
  truth_[kDefaultId] = std::move(all);
  changed();
}

void Fabric::changed() {
  past_.push_front(truth_);
  if (past_.size() > 6) past_.pop_back();
}

void Fabric::add_stranger(std::uint64_t gpu) {
  gpus_[gpu] = true;
  strangers_.push_back(gpu);
}

std::int64_t Fabric::moved_by_controller(std::uint64_t gpu) const {
  const auto at = moved_.find(gpu);
  return at == moved_.end() ? 0 : at->second;
}

std::uint32_t Fabric::new_id() {
  if (reuse_ids_) {
    for (std::uint32_t id = 1;; ++id) {
      if (!truth_.contains(id)) return id;
    }
  }
  return next_id_++;
}

bool Fabric::joinable(const std::vector<std::uint64_t>& gpus, std::uint32_t target,
                      std::int64_t now_ns) const {
  return std::all_of(gpus.begin(), gpus.end(), [&](std::uint64_t gpu) {
    const std::uint32_t place = place_of(truth_, gpu);
    if (place == target && target != 0) return true;
    const auto bound = bound_until_.find(gpu);
    return gpus_.contains(gpu) && gpus_.at(gpu) && place == 0 &&
           (bound == bound_until_.end() || bound->second <= now_ns);
  });
}

void Fabric::take_out(std::uint64_t gpu, std::int64_t now_ns) {
  for (auto& [id, partition] : truth_) {
    if (partition.members.erase(gpu) != 0) bound_until_[gpu] = now_ns + bound_ns_;
  }
}

Answer Fabric::create(const Request& request, const std::vector<std::uint64_t>& gpus,
                      std::int64_t now_ns) {
  const bool taken = std::any_of(truth_.begin(), truth_.end(), [&](const auto& entry) {
    return entry.second.name == request.name;
  });
  if (taken || !joinable(gpus, 0, now_ns)) return {Said::kInUse};
  TruthPartition made{request.name, request.name, false, {}};
  if (rename_) made.name = "p" + std::to_string(next_id_) + "-" + request.name.substr(0, 4);
  for (const std::uint64_t gpu : gpus) made.members[gpu] = {false, now_ns};
  const std::uint32_t id = new_id();
  truth_[id] = std::move(made);
  return {Said::kDone, id};
}

Answer Fabric::apply(const Request& request, std::size_t gpus_max, bool in_time,
                     std::int64_t now_ns) {
  std::vector<std::uint64_t> gpus = request.gpus;
  if (gpus.size() > gpus_max) gpus.resize(gpus_max);
  Answer answer;
  if (request.call == Call::kCreate) {
    answer = create(request, gpus, now_ns);
  } else {
    const auto at = truth_.find(request.id);
    if (at == truth_.end() || at->second.name != request.name) return {Said::kNoSuchPartition};
    answer.id = request.id;
    TruthPartition& target = at->second;
    if (request.call == Call::kAdd) {
      if (!joinable(gpus, request.id, now_ns)) return {Said::kInUse};
      for (const std::uint64_t gpu : gpus)
        target.members.try_emplace(gpu, TruthMember{false, now_ns});
    } else if (request.call == Call::kRemove) {
      for (const std::uint64_t gpu : gpus) {
        if (!target.members.contains(gpu)) continue;
        const bool stranger =
            std::find(strangers_.begin(), strangers_.end(), gpu) != strangers_.end();
        if (target.foreign && stranger)
          trespasses_.push_back("took a stranger out of " + target.name);
        take_out(gpu, now_ns);
      }
    } else {
      if (target.foreign && request.id != kDefaultId)
        trespasses_.push_back("deleted " + target.name);
      gpus.clear();
      for (const auto& [gpu, member] : target.members) gpus.push_back(gpu);
      for (const std::uint64_t gpu : gpus) take_out(gpu, now_ns);
      truth_.erase(at);
    }
  }
  if (answer.said == Said::kDone) {
    if (in_time) {
      // Who was put into a partition after its deletion was decided is not meant.
      for (const std::uint64_t gpu : gpus) {
        const auto& meant = request.gpus;
        if (std::find(meant.begin(), meant.end(), gpu) != meant.end()) moved_[gpu] = now_ns;
      }
    }
    changed();
  }
  return answer;
}

Answer Fabric::call(const Request& request, Fault fault, std::int64_t now_ns,
                    std::int64_t late_ns) {
  const std::size_t all = request.gpus.size();
  rename_ = fault == Fault::kRenamed;
  switch (fault) {
    case Fault::kNone:
    case Fault::kRenamed:
      break;
    case Fault::kRefused:
      return {Said::kError};
    case Fault::kLost:
      return {Said::kNothing};
    case Fault::kSilent:
      static_cast<void>(apply(request, all, true, now_ns));
      return {Said::kNothing};
    case Fault::kLate:
      late_.push_back({now_ns + late_ns, request});
      return {Said::kNothing};
    case Fault::kHalfDone:
      return apply(request, (all + 1) / 2, true, now_ns);
    case Fault::kHalfRefused:
      static_cast<void>(apply(request, (all + 1) / 2, true, now_ns));
      return {Said::kError};
    case Fault::kPretended:
      return {Said::kDone, request.call == Call::kCreate ? 0 : request.id};
    case Fault::kErrorApplied:
      static_cast<void>(apply(request, all, true, now_ns));
      return {Said::kError};
    case Fault::kExhausted:
      if (request.call == Call::kCreate && request.groups != 0) return {Said::kExhausted};
      break;
  }
  const Answer answer = apply(request, all, true, now_ns);
  rename_ = false;
  return answer;
}

void Fabric::tick(std::int64_t now_ns) {
  for (auto at = late_.begin(); at != late_.end();) {
    if (at->at_ns > now_ns) {
      ++at;
      continue;
    }
    const Request request = at->request;
    at = late_.erase(at);
    static_cast<void>(apply(request, request.gpus.size(), false, now_ns));
  }
}

std::vector<ListedPartition> Fabric::list_partitions(std::int64_t now_ns, std::size_t stale_by) {
  looks_.push_back({now_ns, truth_, truth_, false});
  if (looks_.size() > 8) looks_.pop_front();
  std::vector<ListedPartition> list;
  for (const auto& [id, partition] : past_[std::min(stale_by, past_.size() - 1)]) {
    ListedPartition listed{id, partition.name, {}};
    for (const auto& [gpu, member] : partition.members) listed.gpus.push_back(gpu);
    list.push_back(std::move(listed));
  }
  return list;
}

std::vector<ListedGpu> Fabric::list_gpus(std::size_t stale_by, bool lied_deeply) {
  looks_.back().at_gpus = truth_;
  looks_.back().lied_deeply = lied_deeply;
  const Truth& shown = past_[std::min(stale_by, past_.size() - 1)];
  std::vector<ListedGpu> list;
  for (const auto& [gpu, listed] : gpus_) {
    if (listed) list.push_back({gpu, place_of(shown, gpu)});
  }
  return list;
}

void Fabric::plant(std::uint64_t gpu, std::uint32_t partition, std::int64_t now_ns) {
  for (auto& [id, other] : truth_) other.members.erase(gpu);
  moved_.erase(gpu);
  if (const auto at = truth_.find(partition); at != truth_.end())
    at->second.members[gpu] = {true, now_ns};
  changed();
}

std::uint32_t Fabric::make_foreign(const std::string& name) {
  const std::uint32_t id = new_id();
  truth_[id] = {name, name, true, {}};
  changed();
  return id;
}

void Fabric::drop(std::uint32_t partition) {
  if (const auto at = truth_.find(partition); at != truth_.end()) {
    for (const auto& [gpu, member] : at->second.members) moved_.erase(gpu);
    truth_.erase(at);
    changed();
  }
}

void Fabric::show(std::uint64_t gpu, bool listed) { gpus_.at(gpu) = listed; }

void Fabric::forget_all(bool with_default, std::int64_t now_ns) {
  truth_.clear();
  moved_.clear();
  if (with_default) {
    TruthPartition all{"Default Partition", "Default Partition", true, {}};
    for (const auto& [gpu, listed] : gpus_) all.members[gpu] = {true, now_ns};
    truth_[kDefaultId] = std::move(all);
  }
  ++life_;
  changed();
}

}  // namespace imex::partition_sim
