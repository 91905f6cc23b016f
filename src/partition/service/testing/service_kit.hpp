/// A service over a fresh store with two racks, and short ways to call it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "partition/service/service.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::testing {

struct Reply {
  int status = 0;
  nlohmann::json body;  ///< of a text answer: a string
  nlohmann::json pagination;
};

/// Tenant "acme" with 18 machines of quota at a site with `trays` trays; "umbrella" with none;
/// provider "nvidia".
class ServiceTest : public StoreTest {
 protected:
  void SetUp() override;

  using Parameters = std::vector<std::pair<std::string, std::string>>;
  /// Every answer is checked: known content type, JSON that parses, the error form.
  Reply call(const Caller& caller, std::string_view operation, std::vector<std::string> path = {},
             const std::string& body = {}, Parameters query = {});
  Reply call(std::string_view operation, std::vector<std::string> path = {},
             const std::string& body = {}, Parameters query = {}) {
    return call(acme_, operation, std::move(path), body, std::move(query));
  }

  /// All machines seen and clean.
  void observe(std::uint32_t trays);
  /// What the reconciler writes once everything is as wanted.
  void converge();

  std::string make_partition(const std::string& name);
  std::string make_vpc(const std::string& name, const std::string& default_partition = {});
  /// The body of an instance POST; `more` is merged in.
  nlohmann::json instance_body(const std::string& name, const std::string& vpc,
                               const nlohmann::json& more = nlohmann::json::object());
  std::string make_instance(const std::string& name, const std::string& vpc,
                            const nlohmann::json& more = nlohmann::json::object());
  static nlohmann::json interfaces(const std::string& partition, std::vector<int> devices);

  World world_;
  Caller acme_, umbrella_, provider_;
  std::unique_ptr<Service> service_;
  std::int64_t second_ = 1000;
};

}  // namespace imex::partition::testing
