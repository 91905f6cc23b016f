/// FabricManager over NMX-M, the REST service above the controllers of many domains. One object
/// here speaks for one of those domains.
///
/// NMX-M is a copy and can be late: a change is an operation that is polled to its end, and even a
/// completed one may not show at once. Its entity ids are not stable, so they are looked up for
/// every change. What a failed or lost operation did is never certain. An operation that outlived
/// its caller's deadline is remembered: its partition is left alone until it has ended.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/uuid.hpp"
#include "fabric/backoff.hpp"
#include "fabric/manager.hpp"
#include "log/log.hpp"
#include "log/secret.hpp"

namespace imex::fabric::nmxm {

struct Tls {
  std::string authority_file{};    ///< PEM; empty: the system's authorities
  std::string certificate_file{};  ///< PEM; with key_file or not at all
  std::string key_file{};
  std::string server_name{};  ///< empty: the host of the endpoint
  bool verify = true;  ///< false: whoever answers is believed; self-signed gateways are common
};

struct Options {
  /// Base URLs of one NMX-M, in order of preference: "https://gateway[:PORT][/PREFIX]".
  /// "/nmx/v1/..." goes behind it.
  std::vector<std::string> endpoints{};
  Tls tls{};
  std::string user{};  ///< HTTP Basic; "rw-user" may change, "ro-user" may look
  log::Secret password{};
  Uuid domain_uuid{};  ///< which domain; list_domains() tells those that there are
  Nanos request_timeout = std::chrono::seconds(30);
  Nanos operation_poll = std::chrono::milliseconds(500);
  Nanos look_interval =
      std::chrono::seconds(30);  ///< while watched: how often changes of others are looked for
  BackoffOptions backoff{};
  std::size_t answer_bytes_max = std::size_t{64} << 20U;

  // Replaced in tests; must outlive the manager.
  Random* random = nullptr;       ///< nothing: the kernel's
  std::function<Time()> clock{};  ///< for the back-off; nothing: the steady clock
  log::Logger* log = nullptr;     ///< nothing: silent
};

/// All that is wrong with the options in one error. Errors: kInvalidArgument.
[[nodiscard]] Result<void> validate(const Options& options);

/// Errors: those of validate() and of the TLS files.
[[nodiscard]] Result<std::unique_ptr<FabricManager>> open(Options options);

/// The domains that an NMX-M knows, in ascending order; `options.domain_uuid` is not looked at.
[[nodiscard]] Outcome<std::vector<Uuid>> list_domains(Options options, const CallOptions& call);

}  // namespace imex::fabric::nmxm
