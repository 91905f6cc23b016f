/// For tests: an HTTP server that answers as the test says and notes what it was asked; and the
/// API's objects as JSON. Ids are small numbers, written as UUIDs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "base/uuid.hpp"
#include "net/http/server.hpp"
#include "partition/client/client.hpp"

namespace imex::partition::client {

class ScriptedController {
 public:
  struct Asked {
    net::http::Method method;
    std::string target;  ///< behind the base path, with the query
    std::string body, authorization;
  };
  using Script = std::function<net::http::Response(const Asked&)>;

  explicit ScriptedController(Script script);
  ~ScriptedController();
  ScriptedController(const ScriptedController&) = delete;
  ScriptedController& operator=(const ScriptedController&) = delete;

  [[nodiscard]] std::string url() const;
  /// Of org "acme", with the token "t0ken".
  [[nodiscard]] std::unique_ptr<Client> client() const;
  [[nodiscard]] std::vector<Asked> asked() const;

  static constexpr std::string_view kBase = "/v2/org/acme/nico";

 private:
  net::http::Response answer(const net::http::Request& request);

  Script script_;
  mutable Mutex mutex_;
  std::vector<Asked> asked_ IMEX_GUARDED_BY(mutex_);
  std::unique_ptr<net::http::Server> server_;
};

/// A page of a list of `total` objects.
[[nodiscard]] net::http::Response list_of(const std::string& items, std::size_t total);

[[nodiscard]] std::string uuid_text(unsigned number);
[[nodiscard]] Uuid uuid_of(unsigned number);

[[nodiscard]] std::string partition_json(unsigned number, const std::string& name,
                                         const std::string& status = "Ready");
/// `domain` and `uid` as JSON: null, or text in quotes.
[[nodiscard]] std::string interface_json(unsigned number, unsigned instance, unsigned partition,
                                         unsigned device, const std::string& status,
                                         const std::string& domain = "null",
                                         const std::string& uid = "null");
[[nodiscard]] std::string instance_json(unsigned number, const std::string& name,
                                        const std::string& status, const std::string& interfaces);

}  // namespace imex::partition::client
