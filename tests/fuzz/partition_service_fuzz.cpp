// Bodies and queries of the controller's API. Whatever comes, every operation answers with a known
// status and JSON that parses, and only a 2xx may have changed the store.
//
// Input: operation, flags, then "name=value&…\n" of the query, then the body.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "os/file.hpp"
#include "os/random.hpp"
#include "partition/service/service.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace imex;             // NOLINT(google-build-using-namespace): one file
using namespace imex::partition;  // NOLINT(google-build-using-namespace)

/// One store for all inputs: what earlier ones made is there for later ones.
struct Bench {
  std::string folder = *os::make_temporary_directory("imex-fuzz");
  std::unique_ptr<Store> store = *Store::open({.url = folder + "/fuzz.db"});
  Service service{*store};
  Tenant tenant;
  Site site;
  Vpc vpc;
  LogicalPartition partition;

  Bench() {
    Provider provider{.id = {os::random_uuid()}, .org = "owner"};
    tenant = {.id = {os::random_uuid()}, .org = "acme"};
    site = {.id = {os::random_uuid()}, .provider = provider.id, .name = "here"};
    InstanceType type{.id = {os::random_uuid()},
                      .provider = provider.id,
                      .site = site.id,
                      .name = "gb200",
                      .nvlink_gpus = 4};
    Allocation allocation{.id = {os::random_uuid()},
                          .name = "all",
                          .provider = provider.id,
                          .tenant = tenant.id,
                          .site = site.id,
                          .instance_type = type.id,
                          .machines = 4};
    partition = {.id = {os::random_uuid()}, .tenant = tenant.id, .site = site.id, .name = "lp"};
    vpc = {.id = {os::random_uuid()}, .tenant = tenant.id, .site = site.id, .name = "net"};
    const auto done = store->write({"fuzz", "acme"}, [&](WriteTransaction& t) -> Result<void> {
      IMEX_CHECK_OK(t.insert(provider));
      IMEX_CHECK_OK(t.insert(tenant));
      IMEX_CHECK_OK(t.insert(site));
      IMEX_CHECK_OK(t.insert(type));
      IMEX_CHECK_OK(t.insert(allocation));
      IMEX_CHECK_OK(t.insert(partition));
      return t.insert(vpc);
    });
    IMEX_ASSERT(done, "a fresh store takes this");
  }
  ~Bench() {
    store.reset();
    static_cast<void>(os::remove_tree(folder));
  }
};

Query query_of(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!text.empty() && parameters.size() < 64) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    parameters.emplace_back(std::string(pair.substr(0, equals)),
                            std::string(pair.substr(std::min(equals + 1, pair.size()))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Query(std::move(parameters));
}

std::string id_for(const Bench& bench, std::string_view path) {
  if (path.starts_with("/nvlink-logical-partition")) return bench.partition.id.to_string();
  if (path.starts_with("/vpc")) return bench.vpc.id.to_string();
  if (path.starts_with("/site")) return bench.site.id.to_string();
  return bench.tenant.id.to_string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Bench bench;
  if (size < 2) return 0;
  const auto operations = Service::operations();
  const Operation& operation = operations[data[0] % operations.size()];
  // What would take the ground away from under later inputs is left to other tests.
  if (operation.method == "DELETE") return 0;
  const std::string text(data + 2, data + size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  Request request;
  request.caller.subject = "fuzz";
  request.caller.org = (data[1] & 1U) != 0 ? "owner" : "acme";
  request.caller.roles.tenant_admin = request.caller.org == "acme";
  request.caller.roles.provider_admin = request.caller.org == "owner";
  request.path = {id_for(bench, operation.path), "machine"};
  request.query = query_of(std::string_view(text).substr(0, line));
  const std::string body = text.substr(std::min(line + 1, text.size()));
  request.body = body;
  const Answer answer = (bench.service.*operation.run)(request);
  IMEX_ASSERT(answer.status >= 200 && answer.status < 600 && answer.status != 500,
              "an answer, and no internal error");
  IMEX_ASSERT(answer.content_type != "application/json" || nlohmann::json::accept(answer.body),
              "JSON that parses");
  IMEX_ASSERT(answer.pagination.empty() || nlohmann::json::accept(answer.pagination),
              "a header that parses");
  return 0;
}
