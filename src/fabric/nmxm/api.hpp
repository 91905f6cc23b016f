/// The calls of an NMX-M that a manager of one domain needs: lists as entries, changes as
/// operations that are followed to their end.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "answer.hpp"
#include "base/mutex.hpp"
#include "transport.hpp"

namespace imex::fabric::nmxm {

class Api {
 public:
  /// Borrows `options`.
  Api(const Options& options, std::unique_ptr<Transport> transport);

  /// Those that are not of this domain are left out; one that does not tell is taken as asked for.
  [[nodiscard]] Outcome<std::vector<GpuEntry>> gpus(const CallScope& scope);
  [[nodiscard]] Outcome<std::vector<NodeEntry>> nodes(const CallScope& scope);
  /// Of all domains: the list cannot be filtered.
  [[nodiscard]] Outcome<std::vector<PartitionEntry>> partitions(const CallScope& scope);
  [[nodiscard]] Outcome<std::vector<ServiceEntry>> services(const CallScope& scope);
  /// Of all domains.
  [[nodiscard]] Outcome<std::vector<GpuEntry>> all_gpus(const CallScope& scope);

  /// Sends a change and follows its operation to the end. `key` names what is changed: while an
  /// operation with this key that nobody waits for any more is running, nothing else is sent for
  /// it.
  [[nodiscard]] Outcome<void> change(const Request& request, const std::string& key,
                                     const CallScope& scope, std::string_view what);

 private:
  template <class Entry>
  [[nodiscard]] Outcome<std::vector<Entry>> list(
      const std::string& path, Result<std::vector<Entry>> (*read)(std::string_view),
      const CallScope& scope, std::string_view what);
  [[nodiscard]] Outcome<void> wait_for_former(const std::string& key, const CallScope& scope,
                                              std::string_view what);
  [[nodiscard]] Outcome<void> follow(const std::string& operation, const CallScope& scope,
                                     std::string_view what);
  /// Nothing: it cannot be told now. Failures: it will not be told any more.
  [[nodiscard]] Outcome<std::optional<Operation>> ask(const std::string& operation,
                                                      const CallScope& scope,
                                                      std::string_view what);

  const Options& options_;
  const std::unique_ptr<Transport> transport_;
  Mutex mutex_;
  std::map<std::string, std::string> unfinished_ IMEX_GUARDED_BY(mutex_);  ///< key to operation
};

/// A status outside 200 to 299 as a failure. `verb` decides what may have happened.
[[nodiscard]] Failure failure_of(const Reply& reply, Verb verb, std::string_view what);

}  // namespace imex::fabric::nmxm
