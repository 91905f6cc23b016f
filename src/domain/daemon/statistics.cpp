#include "statistics.hpp"

#include <nlohmann/json.hpp>

namespace imex::domain {

namespace {

double millis(Nanos duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

nlohmann::ordered_json to_json(const Statistics::Queue& queue) {
  return {{"queueDepth", queue.depth}, {"oldestDurationMillis", millis(queue.oldest)}};
}

}  // namespace

std::string Statistics::take_line(const Queue& processor, const Queue& pending_free) {
  nlohmann::ordered_json incoming = nlohmann::ordered_json::object();
  for (const auto& [name, message] : messages_) {
    const auto count = static_cast<double>(message.count);
    incoming[std::string(name)] = {
        {"msgCount", message.count},
        {"avgQueueTimeMillis", millis(message.queued) / count},
        {"avgOperTimeMillis", millis(message.handled) / count},
        {"avgTotalTimeMillis", millis(message.queued + message.handled) / count}};
  }
  messages_.clear();
  const nlohmann::ordered_json all = {
      {"QueueStats",
       {{"ProcessorQueue", to_json(processor)}, {"PendingFreeQueue", to_json(pending_free)}}},
      {"IncomingMessages", std::move(incoming)}};
  return all.dump();
}

}  // namespace imex::domain
