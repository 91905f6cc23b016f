#include "api.hpp"

#include <fmt/format.h>

#include "fabric/check.hpp"
#include "net/http/message.hpp"

namespace imex::fabric::nmxm {
namespace {

constexpr std::size_t kUnfinishedMax = 256;

bool is_success(unsigned status) noexcept { return status >= 200 && status < 300; }

Failure broken_reply(Error error, std::string_view what, Effect effect) {
  return {.error = std::move(error).context(what), .effect = effect};
}

/// The last part of "/nmx/v1/operations/<id>"; empty when it is none.
std::string operation_of_location(std::string_view location) {
  constexpr std::string_view kFolder = "/operations/";
  const std::size_t at = location.rfind(kFolder);
  if (at == std::string_view::npos) return {};
  const std::string_view id = location.substr(at + kFolder.size());
  return id.size() <= kEntityIdMax && id.find('/') == std::string_view::npos ? std::string(id)
                                                                             : std::string();
}

}  // namespace

Failure failure_of(const Reply& reply, Verb verb, std::string_view what) {
  Failure failure;
  failure.error = {Errc::kInternal, fmt::format("{}: NMX-M answered {}: {}", what, reply.status,
                                                read_error(reply.body))};
  // What was refused with these was not begun; anything else may have been.
  Effect effect = Effect::kNone;
  switch (reply.status) {
    case 400:
      failure.error.code = Errc::kInvalidArgument;
      break;
    case 401:
      failure.error.code = Errc::kPermissionDenied;
      failure.error.hint = "check user and password of the NMX-M";
      break;
    case 403:
      failure.error.code = Errc::kPermissionDenied;
      failure.error.hint = "this user may not change partitions: use rw-user";
      break;
    case 404:
      failure.error.code = Errc::kNotFound;
      failure.error.hint =
          "entity ids change when NMX-M registers a domain anew: observe, then try again";
      failure.retry = NmxRetry::kSoon;
      break;
    case 405:
    case 501:
      failure.error.code = Errc::kUnsupported;
      break;
    case 409:
      failure.error.code = Errc::kAlreadyExists;
      failure.error.hint =
          "an operation on this partition runs, its name is taken, or a GPU is in another "
          "partition";
      failure.retry = NmxRetry::kSoon;
      break;
    case 429:
    case 503:
      failure.error.code = Errc::kUnavailable;
      failure.error.hint = "NMX-M has no connection to the controller of this domain, or is busy";
      failure.retry = NmxRetry::kBackOff;
      break;
    case 502:
    case 504:
      failure.error.code = Errc::kUnavailable;
      failure.error.hint = "the gateway before NMX-M does not reach it";
      failure.retry = NmxRetry::kBackOff;
      effect = Effect::kUnknown;
      break;
    default:
      failure.retry = NmxRetry::kBackOff;
      effect = Effect::kUnknown;
      break;
  }
  if (is_change(verb)) failure.effect = effect;
  return failure;
}

Api::Api(const Options& options, std::unique_ptr<Transport> transport)
    : options_(options), transport_(std::move(transport)) {}

template <class Entry>
Outcome<std::vector<Entry>> Api::list(const std::string& path,
                                      Result<std::vector<Entry>> (*read)(std::string_view),
                                      const CallScope& scope, std::string_view what) {
  auto reply = transport_->send({.verb = Verb::kGet, .path = path}, scope);
  if (!reply) return tl::unexpected(std::move(reply).error());
  if (!is_success(reply->status)) return tl::unexpected(failure_of(*reply, Verb::kGet, what));
  auto entries = read(reply->body);
  if (!entries)
    return tl::unexpected(broken_reply(std::move(entries).error(), what, Effect::kNone));
  return *std::move(entries);
}

Outcome<std::vector<GpuEntry>> Api::gpus(const CallScope& scope) {
  auto gpus =
      list<GpuEntry>(fmt::format("/nmx/v1/gpus?domain={}", options_.domain_uuid.to_string()),
                     read_gpus, scope, "list the GPUs");
  if (gpus)
    std::erase_if(*gpus, [this](const GpuEntry& entry) {
      return entry.domain && *entry.domain != options_.domain_uuid;
    });
  return gpus;
}

Outcome<std::vector<GpuEntry>> Api::all_gpus(const CallScope& scope) {
  return list<GpuEntry>("/nmx/v1/gpus", read_gpus, scope, "list the GPUs");
}

Outcome<std::vector<NodeEntry>> Api::nodes(const CallScope& scope) {
  auto nodes = list<NodeEntry>(
      fmt::format("/nmx/v1/compute-nodes?domain={}", options_.domain_uuid.to_string()), read_nodes,
      scope, "list the compute nodes");
  if (nodes)
    std::erase_if(*nodes, [this](const NodeEntry& entry) {
      return entry.domain && *entry.domain != options_.domain_uuid;
    });
  return nodes;
}

Outcome<std::vector<PartitionEntry>> Api::partitions(const CallScope& scope) {
  return list<PartitionEntry>("/nmx/v1/partitions", read_partitions, scope, "list the partitions");
}

Outcome<std::vector<ServiceEntry>> Api::services(const CallScope& scope) {
  return list<ServiceEntry>("/nmx/v1/services", read_services, scope, "list the services");
}

Outcome<void> Api::change(const Request& request, const std::string& key, const CallScope& scope,
                          std::string_view what) {
  if (auto free = wait_for_former(key, scope, what); !free) return free;
  auto reply = transport_->send(request, scope);
  if (!reply) return tl::unexpected(std::move(reply).error());
  if (!is_success(reply->status)) return tl::unexpected(failure_of(*reply, request.verb, what));
  auto operation = read_operation_id(reply->body);
  if (!operation) {
    operation = operation_of_location(reply->location);
    if (operation->empty()) {
      return tl::unexpected(broken_reply(
          {Errc::kDataLoss, "accepted without an operation id", "observe before the next change"},
          what, Effect::kUnknown));
    }
  }
  auto done = follow(*operation, scope, what);
  if (!done && (done.error().error.code == Errc::kDeadlineExceeded ||
                done.error().error.code == Errc::kAborted)) {
    const MutexLock lock(mutex_);
    if (unfinished_.size() >= kUnfinishedMax) unfinished_.erase(unfinished_.begin());
    unfinished_[key] = *operation;
  }
  return done;
}

Outcome<void> Api::wait_for_former(const std::string& key, const CallScope& scope,
                                   std::string_view what) {
  std::string operation;
  {
    const MutexLock lock(mutex_);
    const auto at = unfinished_.find(key);
    if (at == unfinished_.end()) return {};
    operation = at->second;
  }
  auto state = ask(operation, scope, what);
  // How it ended is for the next observation; a forgotten one has ended, too.
  const bool running = state && (!*state || (*state)->status == Operation::Status::kRunning);
  if (running) {
    return tl::unexpected(Failure{
        .error = {Errc::kUnavailable,
                  fmt::format("{}: operation {} of an earlier change still runs", what, operation),
                  "it ends by itself; NMX-M can be asked to cancel it"},
        .retry = NmxRetry::kBackOff});
  }
  if (!state && state.error().error.code != Errc::kNotFound)
    return tl::unexpected(std::move(state).error());
  const MutexLock lock(mutex_);
  unfinished_.erase(key);
  // Whoever called decided on what was read before that operation ended.
  return tl::unexpected(
      Failure{.error = {Errc::kStale,
                        fmt::format("{}: operation {} of an earlier change has ended only now",
                                    what, operation),
                        "observe, then decide again"},
              .retry = NmxRetry::kSoon});
}

Outcome<std::optional<Operation>> Api::ask(const std::string& operation, const CallScope& scope,
                                           std::string_view what) {
  auto reply = transport_->send(
      {.verb = Verb::kGet,
       .path = fmt::format("/nmx/v1/operations/{}", net::http::percent_encoded(operation))},
      scope);
  if (!reply) {
    if (reply.error().error.code == Errc::kAborted) return tl::unexpected(std::move(reply).error());
    return std::optional<Operation>();  // it runs on, whether we can ask or not
  }
  if (reply->status == 404 || reply->status == 401 || reply->status == 403)
    return tl::unexpected(
        failure_of(*reply, Verb::kGet, fmt::format("{}: operation {}", what, operation)));
  if (!is_success(reply->status)) return std::optional<Operation>();
  auto read = read_operation(reply->body);
  if (!read) return tl::unexpected(broken_reply(std::move(read).error(), what, Effect::kNone));
  return std::optional<Operation>(*std::move(read));
}

Outcome<void> Api::follow(const std::string& operation, const CallScope& scope,
                          std::string_view what) {
  const auto uncertain = [](Failure failure) {
    failure.effect = Effect::kUnknown;
    return tl::unexpected(std::move(failure));
  };
  Operation last;
  while (true) {
    auto state = ask(operation, scope, what);
    if (!state) return uncertain(std::move(state).error());
    if (*state) last = **state;
    switch (last.status) {
      case Operation::Status::kCompleted:
        return {};
      case Operation::Status::kFailed:
      case Operation::Status::kCancelled: {
        // Even so the fabric may have changed: failed creates have left partitions behind.
        const auto code = nmx_code_from_name(last.error);
        const std::string text =
            fmt::format("{}: operation {} {}: {}{}{}", what, operation,
                        last.status == Operation::Status::kFailed ? "failed" : "was cancelled",
                        last.error.empty() ? "no reason told" : last.error,
                        last.details.empty() ? "" : ": ", last.details);
        Failure failure{
            .error = {last.status == Operation::Status::kFailed ? Errc::kInternal : Errc::kAborted,
                      text}};
        if (code && *code != NmxCode::kSuccess) {
          const NmxCodeInfo info = nmx_code_info(*code);
          failure.code = *code;
          failure.retry = info.retry;
          failure.error.code = info.errc;
          failure.error.hint = info.hint;
        }
        return uncertain(std::move(failure));
      }
      case Operation::Status::kRunning:
        break;
    }
    const bool awake = sleep_for(options_.operation_poll, scope);
    if (awake && !scope.expired()) continue;
    Failure failure = scope.check(what).error();
    failure.error.message += fmt::format("; operation {} goes on at {:.0f} %{}{}", operation,
                                         last.percentage, last.step.empty() ? "" : ": ", last.step);
    return uncertain(std::move(failure));
  }
}

}  // namespace imex::fabric::nmxm
