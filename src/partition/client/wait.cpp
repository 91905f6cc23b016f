#include "partition/client/wait.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace imex::partition::client {
namespace {

using std::chrono::steady_clock;

/// What a look shows.
struct Sight {
  bool reached = false;
  std::string words;
};

std::string last_word(const std::vector<StatusNote>& history) {
  return history.empty() ? std::string() : history.front().message;
}

/// Errors: kFailedPrecondition.
template <class View>
Result<Sight> sight_of(const View& view) {
  if (view.status == Status::kError) {
    const std::string why = last_word(view.history);
    return fail(Errc::kFailedPrecondition,
                fmt::format("'{}' is in state Error{}{}", view.name, why.empty() ? "" : ": ", why));
  }
  return Sight{view.status == Status::kReady, std::string(status_name(view.status))};
}

Result<Sight> sight_of(const InstanceView& view) {
  IMEX_TRY(Sight sight, sight_of<InstanceView>(view));
  std::size_t wanted = 0, ready = 0, leaving = 0;
  for (const InterfaceView& each : view.interfaces) {
    if (each.status == Status::kError) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("GPU {} of '{}' is in state Error", each.device_instance, view.name),
                  "see its history: imex instance show " + view.id.to_string());
    }
    if (each.status == Status::kDeleting) {
      ++leaving;
      continue;
    }
    ++wanted;
    if (each.status == Status::kReady) ++ready;
  }
  sight.reached = sight.reached && ready == wanted && leaving == 0;
  if (wanted != 0) sight.words += fmt::format(", {} of {} GPUs in place", ready, wanted);
  if (leaving != 0) sight.words += fmt::format(", {} leaving", leaving);
  return sight;
}

/// The pauses between looks, and what is told of them.
class Patience {
 public:
  Patience(const WaitOptions& options, std::string what)
      : options_(options), what_(std::move(what)), pause_(options.pause) {}

  void tell(const std::string& words) {
    if (words == seen_) return;
    seen_ = words;
    if (options_.progress) options_.progress(words);
    pause_ = options_.pause;  // something moves: look closely again
  }

  /// Errors: kDeadlineExceeded.
  Result<void> pause() {
    const auto now = steady_clock::now();
    if (now >= options_.deadline) {
      return fail(Errc::kDeadlineExceeded,
                  fmt::format("{}: not reached in time; last seen: {}", what_, seen_),
                  "it may still come about; give more time with --wait-timeout");
    }
    const auto room = std::chrono::duration_cast<Nanos>(options_.deadline - now);
    std::this_thread::sleep_for(std::min(pause_, room));
    pause_ = std::min(pause_ + pause_ / 2, options_.pause_max);
    return {};
  }

 private:
  const WaitOptions& options_;
  std::string what_, seen_ = "nothing";
  Nanos pause_;
};

bool may_pass(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kDeadlineExceeded;
}

template <class View, class Get>
Result<View> until_ready(const WaitOptions& options, std::string what, Get get) {
  Patience patience(options, std::move(what));
  for (;;) {
    Result<View> view = get();
    if (view) {
      IMEX_TRY(const Sight sight, sight_of(*view));
      if (sight.reached) return view;
      patience.tell(sight.words);
    } else if (may_pass(view.error())) {
      patience.tell(view.error().message);
    } else {
      return view;
    }
    IMEX_CHECK_OK(patience.pause());
  }
}

template <class Get>
Result<void> until_gone(const WaitOptions& options, std::string what, Get get) {
  Patience patience(options, std::move(what));
  for (;;) {
    const auto view = get();
    if (view) {
      patience.tell(std::string(status_name(view->status)));
    } else if (view.error().code == Errc::kNotFound) {
      return {};
    } else if (may_pass(view.error())) {
      patience.tell(view.error().message);
    } else {
      return fail(view.error());
    }
    IMEX_CHECK_OK(patience.pause());
  }
}

}  // namespace

Result<PartitionView> wait_ready(Client& client, const LogicalPartitionId& id,
                                 const WaitOptions& options) {
  return until_ready<PartitionView>(options, fmt::format("partition {} Ready", id.to_string()),
                                    [&] { return client.partition(id); });
}
Result<VpcView> wait_ready(Client& client, const VpcId& id, const WaitOptions& options) {
  return until_ready<VpcView>(options, fmt::format("VPC {} Ready", id.to_string()),
                              [&] { return client.vpc(id); });
}
Result<InstanceView> wait_ready(Client& client, const InstanceId& id, const WaitOptions& options) {
  return until_ready<InstanceView>(options, fmt::format("instance {} Ready", id.to_string()),
                                   [&] { return client.instance(id); });
}

Result<void> wait_gone(Client& client, const LogicalPartitionId& id, const WaitOptions& options) {
  return until_gone(options, fmt::format("partition {} gone", id.to_string()),
                    [&] { return client.partition(id); });
}
Result<void> wait_gone(Client& client, const VpcId& id, const WaitOptions& options) {
  return until_gone(options, fmt::format("VPC {} gone", id.to_string()),
                    [&] { return client.vpc(id); });
}
Result<void> wait_gone(Client& client, const InstanceId& id, const WaitOptions& options) {
  return until_gone(options, fmt::format("instance {} gone", id.to_string()),
                    [&] { return client.instance(id); });
}

}  // namespace imex::partition::client
