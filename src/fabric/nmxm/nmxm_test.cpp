// The interface over a scripted NMX-M: operations that end late, lie or vanish, lists that lag,
// bodies of other people.
#include "fabric/nmxm.hpp"

#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "answer.hpp"
#include "base/mutex.hpp"
#include "domain_reader.hpp"
#include "lookout.hpp"
#include "net/http/server.hpp"

namespace imex::fabric::nmxm {
namespace {

using Json = nlohmann::json;
using net::http::Method;
using net::http::Response;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kOwn = "3b1f8a52-0d1c-4c7e-9c54-7b1a2d3e4f50";
constexpr const char* kOther = "00000000-0000-4000-8000-000000000001";
constexpr std::uint64_t kUid = 0xabcd'0000'0000'0001ULL;  // above 2^53

CallOptions with_patience() { return CallOptions::within(seconds(20)); }

template <class Condition>
bool happens(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

/// How the next operation goes.
struct Course {
  int polls = 2;  ///< until it ends; -1: never
  std::string status = "completed", error{};
  bool apply = true;
  bool hidden = false;  ///< done, but no list shows it yet
  bool gone = false;    ///< nobody knows it any more
};

class FakeManager {
 public:
  FakeManager() {
    net::http::Router router;
    const auto add = [&](Method method, const char* pattern, auto handler) {
      router.add(method, pattern, [this, handler](const net::http::Request& request) {
        const MutexLock lock(mutex_);
        ++requests_;
        if (request.headers.find("Authorization") !=
            "Basic cnctdXNlcjpzZWNyZXQ=")  // rw-user:secret
          return Response::json(401, R"({"message": "Unauthorized"})");
        if (auto scripted = take(request)) return *scripted;
        return handler(request);
      });
    };
    add(Method::kGet, "/nmx/v1/gpus",
        [this](const auto& request) { return Response::json(200, gpus(request).dump()); });
    add(Method::kGet, "/nmx/v1/compute-nodes",
        [this](const auto&) { return Response::json(200, nodes().dump()); });
    add(Method::kGet, "/nmx/v1/services",
        [this](const auto&) { return Response::json(200, services_.dump()); });
    add(Method::kGet, "/nmx/v1/partitions",
        [this](const auto&) { return Response::json(200, partitions().dump()); });
    add(Method::kPost, "/nmx/v1/partitions",
        [this](const auto& request) { return change(request); });
    add(Method::kPut, "/nmx/v1/partitions/{id}",
        [this](const auto& request) { return change(request); });
    add(Method::kDelete, "/nmx/v1/partitions/{id}",
        [this](const auto& request) { return change(request); });
    add(Method::kGet, "/nmx/v1/operations/{id}",
        [this](const auto& request) { return operation(request); });
    net::http::ServerOptions options;
    options.listeners = {{.address = "127.0.0.1:0"}};
    auto server = net::http::Server::start(std::move(options), std::move(router));
    EXPECT_TRUE(server) << server.error().to_string();
    server_ = *std::move(server);
  }
  [[nodiscard]] std::string url() const {
    return fmt::format("http://127.0.0.1:{}", server_->port());
  }
  void stop() { server_->stop(seconds(0)); }

  [[nodiscard]] Options options() const {
    Options options;
    options.endpoints = {url()};
    options.user = "rw-user";
    options.password = log::Secret("secret");
    options.domain_uuid = *Uuid::parse(kOwn);
    options.operation_poll = milliseconds(2);
    options.look_interval = milliseconds(10);
    options.backoff = {.first = milliseconds(5), .max = milliseconds(20)};
    return options;
  }

  void next(Course course) {
    const MutexLock lock(mutex_);
    courses_.push_back(std::move(course));
  }
  /// Answers the next request of this method and path so.
  void answer_next(Method method, const std::string& path, Response response) {
    const MutexLock lock(mutex_);
    scripted_.push_back({method, path, std::move(response)});
  }
  void with(const std::function<void(FakeManager&)>& change) IMEX_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    change(*this);
  }
  [[nodiscard]] Json last_body() const {
    const MutexLock lock(mutex_);
    return last_body_;
  }
  [[nodiscard]] int changes() const {
    const MutexLock lock(mutex_);
    return changes_;
  }
  [[nodiscard]] std::vector<std::uint64_t> members(std::uint32_t id) const {
    const MutexLock lock(mutex_);
    std::vector<std::uint64_t> uids;
    for (const auto& partition : partitions_)
      if (partition.id == id)
        for (const Json& member : partition.members) uids.push_back(uid_of(member));
    std::sort(uids.begin(), uids.end());
    return uids;
  }

  struct Partition {
    std::string entity;
    std::uint32_t id = 0;
    std::string name, type = "ID_BASED";
    Json members = Json::array();
    bool hidden = false;
  };
  // Of the model; only within with().
  std::vector<Partition> partitions_{
      {"5f0000000000000000000001", 32'766, "Default Partition", "ID_BASED",
       Json::array({"6a0000000000000000000000", "6a0000000000000000000001"})},
      {"5f0000000000000000000002", 32'766, "Default Partition", "ID_BASED",
       Json::array({"6b0000000000000000000000"})}};
  Json services_ = Json::array(
      {{{"ServiceType", "CONTROLLER"},
        {"ClusterDomainUUID", kOwn},
        {"Status", "UP"},
        {"ApplicationUUID", "instance-1"},
        {"Version", "1.3"}},
       {{"ServiceType", "CONTROLLER"}, {"ClusterDomainUUID", kOther}, {"Status", "UP"}}});
  std::set<std::string> missing_;
  std::string id_prefix_ = "6a";

 private:
  struct Scripted {
    Method method;
    std::string path;
    Response response;
  };

  [[nodiscard]] std::string entity_of(int i) const {
    return fmt::format("{}{:022}", id_prefix_, i);
  }
  static std::uint64_t uid_of(const Json& member) {
    if (member.is_string()) return kUid + std::stoull(member.get<std::string>().substr(2));
    return kUid + (member["SlotID"].get<std::uint64_t>() - 21) * 4 +
           member["DeviceID"].get<std::uint64_t>() - 1;
  }
  std::optional<Response> take(const net::http::Request& request) {
    for (std::size_t i = 0; i < scripted_.size(); ++i) {
      if (scripted_[i].method != request.method || scripted_[i].path != request.path) continue;
      Response response = std::move(scripted_[i].response);
      scripted_.erase(scripted_.begin() + static_cast<std::ptrdiff_t>(i));
      return response;
    }
    return std::nullopt;
  }
  Json gpus(const net::http::Request& request) {
    Json list = Json::array();
    for (int i = 0; i < 8; ++i) {
      const std::string entity = entity_of(i);
      if (missing_.contains(entity)) continue;
      Json gpu = {{"ID", entity},
                  {"DomainUUID", kOwn},
                  {"DeviceUID", kUid + static_cast<std::uint64_t>(i)},
                  {"DeviceID", i % 4 + 1},
                  {"Health", "HEALTHY"},
                  {"PartitionID", nullptr},
                  {"SurpriseKey", 1},
                  {"LocationInfo",
                   {{"ChassisID", 1},
                    {"ChassisSerialNumber", "1821220000000"},
                    {"SlotID", 21 + i / 4},
                    {"TrayIndex", i / 4},
                    {"HostID", 1}}}};
      for (const Partition& partition : partitions_)
        for (const Json& member : partition.members)
          if ((member.is_string() ? member == entity
                                  : uid_of(member) == kUid + static_cast<std::uint64_t>(i)) &&
              partition.entity != "5f0000000000000000000002")
            gpu["PartitionID"] = partition.id;
      list.push_back(std::move(gpu));
    }
    if (!request.query.find("domain"))
      list.push_back({{"ID", "6b0000000000000000000000"},
                      {"DomainUUID", kOther},
                      {"DeviceUID", 5},
                      {"DeviceID", 1}});
    return list;
  }
  static Json nodes() {
    Json list = Json::array();
    for (int tray = 0; tray < 2; ++tray)
      list.push_back(
          {{"ID", "7a"},
           {"DomainUUID", kOwn},
           {"Health", "HEALTHY"},
           {"LocationInfo",
            {{"ChassisID", 1}, {"SlotID", 21 + tray}, {"TrayIndex", tray}, {"HostID", 1}}}});
    return list;
  }
  Json partitions() {
    Json list = Json::array();
    for (const Partition& partition : partitions_) {
      if (partition.hidden) continue;
      list.push_back({{"ID", partition.entity},
                      {"PartitionID", partition.id},
                      {"Name", partition.name},
                      {"Type", partition.type},
                      {"Health", "HEALTHY"},
                      {"Members", partition.members.empty() ? Json() : partition.members}});
    }
    return list;
  }
  Response change(const net::http::Request& request) {
    ++changes_;
    last_body_ = request.body.empty() ? Json() : Json::parse(request.body);
    Course course;
    if (!courses_.empty()) {
      course = courses_.front();
      courses_.erase(courses_.begin());
    }
    if (course.apply) apply_change(request, course);
    const std::string id = fmt::format("0b{:022}", ++operations_count_);
    operations_[id] = course;
    Response response = Response::json(202, Json{{"operationId", id}}.dump());
    response.headers.set("Location", "/nmx/v1/operations/" + id);
    return response;
  }
  void apply_change(const net::http::Request& request, const Course& course) {
    if (request.method == Method::kPost) {
      partitions_.push_back({fmt::format("5f{:022}", 100 + ++created_), created_,
                             last_body_["Name"], "ID_BASED", last_body_["Members"], course.hidden});
      return;
    }
    const std::string entity(request.parameter("id"));
    for (std::size_t i = 0; i < partitions_.size(); ++i) {
      if (partitions_[i].entity != entity) continue;
      if (request.method == Method::kPut)
        partitions_[i].members = last_body_["Members"];
      else
        partitions_.erase(partitions_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  Response operation(const net::http::Request& request) {
    const auto found = operations_.find(std::string(request.parameter("id")));
    if (found == operations_.end() || found->second.gone)
      return Response::json(
          404,
          R"({"httpErrorCode": 404, "customErrorCode": "not-found", "description": "no such operation"})");
    Course& course = found->second;
    const bool running = course.polls != 0;
    if (course.polls > 0) --course.polls;
    Json operation = {{"ID", found->first},
                      {"Status", running ? "in-progress" : course.status},
                      {"Percentage", running ? 50 : 100},
                      {"CurrentStep", "adding GPUs"},
                      {"Result", nullptr}};
    if (!running)
      operation["Result"] = {{"Data", nullptr}, {"Error", course.error}, {"Details", ""}};
    return Response::json(200, operation.dump());
  }

  std::unique_ptr<net::http::Server> server_;
  mutable Mutex mutex_;
  std::vector<Course> courses_;
  std::vector<Scripted> scripted_;
  std::map<std::string, Course> operations_;
  Json last_body_;
  int requests_ = 0, changes_ = 0, operations_count_ = 0;
  std::uint32_t created_ = 0;
};

class NmxmManagerTest : public ::testing::Test {
 protected:
  NmxmManagerTest() { open_with(fake_.options()); }
  void open_with(const Options& options) {
    auto manager = open(options);
    ASSERT_TRUE(manager) << manager.error().to_string();
    manager_ = *std::move(manager);
  }
  Outcome<CreatedPartition> create(const std::string& name, std::vector<std::uint64_t> uids,
                                   CallOptions options = with_patience()) {
    return manager_->create_partition({.name = name, .gpu_uids = std::move(uids)}, options);
  }

  FakeManager fake_;
  std::unique_ptr<FabricManager> manager_;
};

TEST_F(NmxmManagerTest, ObservesItsDomainOnly) {
  const auto snapshot = manager_->observe(with_patience());
  ASSERT_TRUE(snapshot) << snapshot.error().error.to_string();
  EXPECT_EQ(snapshot->gpus.size(), 8U);
  const ObservedGpu* gpu = snapshot->find_gpu(kUid + 5);
  ASSERT_NE(gpu, nullptr) << "uids beyond 2^53 are exact";
  EXPECT_EQ(gpu->place.slot_id, 22U);
  EXPECT_EQ(gpu->module_id, 2U);
  ASSERT_EQ(snapshot->partitions.size(), 1U)
      << "the other domain has a partition of the same number";
  EXPECT_EQ(snapshot->partitions[0].gpu_uids, (std::vector<std::uint64_t>{kUid, kUid + 1}));
  EXPECT_EQ(snapshot->instance, "instance-1");
  EXPECT_TRUE(snapshot->can_change());
  EXPECT_EQ(snapshot->nodes.size(), 2U);
  EXPECT_EQ(snapshot->nodes[0].gpu_count, 4U);
  EXPECT_EQ(snapshot->multicast_groups_free, std::nullopt);
  EXPECT_TRUE(snapshot->disputed.empty());
}

TEST_F(NmxmManagerTest, DescribesAndListsDomains) {
  const auto description = manager_->describe(with_patience());
  ASSERT_TRUE(description);
  EXPECT_EQ(description->version, "1.3");
  EXPECT_EQ(description->profile.name_bytes_max, 244U);
  EXPECT_FALSE(description->profile.immediate);
  const auto domains = list_domains(fake_.options(), with_patience());
  ASSERT_TRUE(domains);
  EXPECT_EQ(*domains, (std::vector<Uuid>{*Uuid::parse(kOther), *Uuid::parse(kOwn)}));
}

TEST_F(NmxmManagerTest, AnUnknownDomainIsSaidToBeUnknown) {
  Options options = fake_.options();
  options.domain_uuid = *Uuid::parse("00000000-0000-4000-8000-0000000000ff");
  open_with(options);
  const auto snapshot = manager_->observe(with_patience());
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().error.code, Errc::kNotFound);
}

TEST_F(NmxmManagerTest, CreatesByEntityAndFollowsTheOperation) {
  const auto created = create("lp-7", {kUid + 5, kUid + 4});
  ASSERT_TRUE(created) << created.error().error.to_string();
  EXPECT_EQ(created->id, 1U);
  EXPECT_EQ(fake_.last_body(),
            (Json{{"Name", "lp-7"},
                  {"Members", {"6a0000000000000000000004", "6a0000000000000000000005"}}}));
}

TEST_F(NmxmManagerTest, AnUpdateCarriesTheWholeMembership) {
  ASSERT_TRUE(create("lp-7", {kUid + 4, kUid + 5}));
  const auto updated = manager_->update_partition(
      {.id = 1, .name = "lp-7"}, {.remove = {kUid + 4}, .add = {kUid + 6}}, with_patience());
  ASSERT_TRUE(updated) << updated.error().error.to_string();
  EXPECT_EQ(fake_.last_body(),
            (Json{{"Members", {"6a0000000000000000000005", "6a0000000000000000000006"}}}));
  ASSERT_TRUE(manager_->update_partition({.id = 1}, {.add = {kUid + 5}}, with_patience()));
  EXPECT_EQ(fake_.changes(), 2) << "nothing to do, nothing sent";
}

TEST_F(NmxmManagerTest, AMemberWhoseTrayIsOffStaysAMember) {
  ASSERT_TRUE(create("lp-7", {kUid + 4, kUid + 5}));
  fake_.with([](FakeManager& fake) { fake.missing_ = {"6a0000000000000000000004"}; });
  const auto snapshot = manager_->observe(with_patience());
  ASSERT_TRUE(snapshot);
  ASSERT_NE(snapshot->partition_of(kUid + 4), nullptr) << "its id is known from before";
  ASSERT_TRUE(manager_->update_partition({.id = 1}, {.add = {kUid + 6}}, with_patience()));
  EXPECT_EQ(
      fake_.last_body()["Members"],
      (Json{"6a0000000000000000000004", "6a0000000000000000000005", "6a0000000000000000000006"}));

  open_with(fake_.options());  // one that has never seen the id
  const auto again = manager_->observe(with_patience());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->disputed, (std::vector<std::uint64_t>{kUid + 5, kUid + 6}))
      << "half of the members cannot be named";
  ASSERT_TRUE(manager_->update_partition({.id = 1}, {.remove = {kUid + 6}}, with_patience()));
  EXPECT_EQ(fake_.last_body()["Members"],
            (Json{"6a0000000000000000000004", "6a0000000000000000000005"}))
      << "it is not thrown out";
}

TEST_F(NmxmManagerTest, ChangedEntityIdsAreLookedUpAnew) {
  fake_.with([](FakeManager& fake) {
    fake.id_prefix_ = "6c";
    fake.partitions_[0].members = {"6c0000000000000000000000", "6c0000000000000000000001"};
  });
  ASSERT_TRUE(create("lp-7", {kUid + 4}));
  EXPECT_EQ(fake_.last_body()["Members"], (Json{"6c0000000000000000000004"}));
}

TEST_F(NmxmManagerTest, APartitionOfLocationsIsChangedByLocation) {
  const Json place = {
      {"DomainUUID", kOwn}, {"ChassisID", 1}, {"SlotID", 22}, {"HostID", 1}, {"DeviceID", 1}};
  fake_.with([&](FakeManager& fake) {
    fake.partitions_.push_back(
        {"5f00000000000000000000aa", 9, "by place", "LOCATION_BASED", Json::array({place})});
  });
  const auto snapshot = manager_->observe(with_patience());
  ASSERT_TRUE(snapshot);
  ASSERT_NE(snapshot->find_partition(9), nullptr);
  EXPECT_EQ(snapshot->find_partition(9)->gpu_uids, (std::vector<std::uint64_t>{kUid + 4}));
  ASSERT_TRUE(manager_->update_partition({.id = 9}, {.remove = {kUid + 4}, .add = {kUid + 5}},
                                         with_patience()));
  ASSERT_EQ(fake_.last_body()["Members"].size(), 1U);
  EXPECT_EQ(fake_.last_body()["Members"][0]["DeviceID"], 2);
  EXPECT_EQ(fake_.last_body()["Members"][0]["DomainUUID"], kOwn);
}

TEST_F(NmxmManagerTest, EmptyPartitionsAreTakenWhereThereIsOneDomain) {
  fake_.with([](FakeManager& fake) {
    fake.partitions_.push_back({"5f00000000000000000000aa", 9, "empty", "UNDEFINED"});
  });
  auto snapshot = manager_->observe(with_patience());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->find_partition(9), nullptr) << "it could be the other domain's";
  fake_.with([](FakeManager& fake) { fake.services_.erase(1); });
  snapshot = manager_->observe(with_patience());
  ASSERT_TRUE(snapshot);
  ASSERT_NE(snapshot->find_partition(9), nullptr);
  EXPECT_TRUE(snapshot->find_partition(9)->gpu_uids.empty());
}

TEST_F(NmxmManagerTest, DeletesAndSaysWhatIsGone) {
  ASSERT_TRUE(create("lp-7", {kUid + 4}));
  ASSERT_TRUE(manager_->delete_partition({.id = 1, .name = "lp-7"}, with_patience()));
  const auto again = manager_->delete_partition({.id = 1}, with_patience());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, NmxCode::kPartitionIdNotInUse);
  const auto mismatch = manager_->delete_partition({.id = 32'766, .name = "lp-7"}, with_patience());
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code, NmxCode::kPartitionIdNameMismatch);
}

TEST_F(NmxmManagerTest, AFailedOperationIsNeverCertain) {
  fake_.next({.status = "failed", .error = "NMX_ST_RESOURCE_IN_USE"});
  const auto created = create("lp-7", {kUid + 4});
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, NmxCode::kResourceInUse);
  EXPECT_EQ(created.error().effect, Effect::kUnknown)
      << "it has happened that the partition was there all the same";
  const auto snapshot = manager_->observe(with_patience());
  ASSERT_TRUE(snapshot);
  EXPECT_NE(snapshot->partition_of(kUid + 4), nullptr);
}

TEST_F(NmxmManagerTest, ACompletedCreateThatNoListShowsIsConverging) {
  fake_.next({.hidden = true});
  const auto created = create("lp-7", {kUid + 4});
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.code, Errc::kUnavailable);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
  EXPECT_EQ(fake_.changes(), 1) << "neither created again nor deleted";
}

TEST_F(NmxmManagerTest, AnOperationThatOutlivesItsCallerIsRemembered) {
  fake_.next({.polls = 1'000'000});
  const auto created = create("lp-7", {kUid + 4}, CallOptions::within(milliseconds(500)));
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().error.code, Errc::kDeadlineExceeded);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
  const auto again = create("lp-7", {kUid + 4});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().error.code, Errc::kUnavailable) << again.error().error.message;
  EXPECT_EQ(again.error().effect, Effect::kNone);
  EXPECT_EQ(fake_.changes(), 1) << "one operation at a time";
}

TEST_F(NmxmManagerTest, ALateEndAsksForAnotherLook) {
  fake_.next({.polls = -1});
  ASSERT_FALSE(create("lp-7", {kUid + 4}, CallOptions::within(milliseconds(500))));
  // A question that the first call gave up may still be on its way, and takes one.
  for (int i = 0; i < 3; ++i) {
    fake_.answer_next(Method::kGet, "/nmx/v1/operations/0b0000000000000000000001",
                      Response::json(404, "{}"));
  }
  const auto again = create("lp-7", {kUid + 4});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().error.code, Errc::kStale) << again.error().error.message;
  const auto third = create("lp-8", {kUid + 5});
  EXPECT_TRUE(third) << third.error().error.to_string();
}

TEST_F(NmxmManagerTest, AVanishedOperationIsOfUnknownEffect) {
  fake_.next({.gone = true});
  const auto created = create("lp-7", {kUid + 4});
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().effect, Effect::kUnknown);
}

TEST_F(NmxmManagerTest, TroubleWhilePollingIsSatOut) {
  for (const unsigned status : {500U, 502U, 503U})
    fake_.answer_next(Method::kGet, "/nmx/v1/operations/0b0000000000000000000001",
                      Response::text(status, "<html>trouble</html>"));
  EXPECT_TRUE(create("lp-7", {kUid + 4}));
}

TEST_F(NmxmManagerTest, TheLocationHeaderServesWhereTheBodyDoesNot) {
  Response response = Response::text(202, "accepted");
  response.headers.set("Location", "/nmx/v1/operations/0b0000000000000000000001");
  fake_.answer_next(Method::kPost, "/nmx/v1/partitions", response);
  fake_.answer_next(Method::kGet, "/nmx/v1/operations/0b0000000000000000000001",
                    Response::json(200, R"([{"Status": "failed"}])"));
  const auto created = create("lp-7", {kUid + 4});
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().error.message.find("failed"), std::string::npos)
      << created.error().error.message;
  fake_.answer_next(Method::kPost, "/nmx/v1/partitions", Response::text(202, "accepted"));
  const auto without = create("lp-8", {kUid + 4});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().effect, Effect::kUnknown);
}

TEST_F(NmxmManagerTest, StatusesOfChangesSayWhatMayHaveHappened) {
  struct Case {
    unsigned status;
    Errc code;
    Effect effect;
  };
  for (const Case& expected :
       {Case{400, Errc::kInvalidArgument, Effect::kNone},
        Case{403, Errc::kPermissionDenied, Effect::kNone},
        Case{404, Errc::kNotFound, Effect::kNone}, Case{409, Errc::kAlreadyExists, Effect::kNone},
        Case{500, Errc::kInternal, Effect::kUnknown},
        Case{502, Errc::kUnavailable, Effect::kUnknown},
        Case{503, Errc::kUnavailable, Effect::kNone}}) {
    fake_.answer_next(Method::kPost, "/nmx/v1/partitions",
                      Response::text(expected.status, "<html>no\n</html>"));
    const auto created = create("lp-7", {kUid + 4});
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().error.code, expected.code) << expected.status;
    EXPECT_EQ(created.error().effect, expected.effect) << expected.status;
    EXPECT_NE(created.error().error.message.find("<html>no\\n"), std::string::npos)
        << created.error().error.message;
  }
}

TEST_F(NmxmManagerTest, AConflictWithItselfIsNoConflict) {
  ASSERT_TRUE(create("lp-7", {kUid + 4}));
  fake_.answer_next(
      Method::kPost, "/nmx/v1/partitions",
      Response::json(
          409,
          R"({"httpErrorCode": 409, "customErrorCode": "conflict", "description": "name taken"})"));
  const auto again = create("lp-7", {kUid + 4});
  ASSERT_TRUE(again) << again.error().error.to_string();
  EXPECT_TRUE(again->already_there);
  EXPECT_EQ(again->id, 1U);
}

TEST_F(NmxmManagerTest, WrongCredentialsAreNamedAndNeverShown) {
  Options options = fake_.options();
  options.password = log::Secret("wrong-secret");
  open_with(options);
  const auto snapshot = manager_->observe(with_patience());
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().error.code, Errc::kPermissionDenied);
  EXPECT_EQ(snapshot.error().error.to_string().find("wrong-secret"), std::string::npos);
}

TEST_F(NmxmManagerTest, ADeadEndpointGivesWayAndAllDeadFailFast) {
  auto other = std::make_unique<FakeManager>();
  Options options = fake_.options();
  options.endpoints = {other->url(), fake_.url()};
  other.reset();
  open_with(options);
  EXPECT_TRUE(manager_->observe(with_patience()));
  options.endpoints = {options.endpoints[0]};
  options.backoff = {.first = seconds(100), .max = seconds(100)};
  open_with(options);
  EXPECT_FALSE(manager_->observe(with_patience()));
  const auto waiting = manager_->observe(with_patience());
  ASSERT_FALSE(waiting);
  EXPECT_GT(waiting.error().retry_after, seconds(10));
}

TEST_F(NmxmManagerTest, ChangesOfOthersAreFoundByLooking) {
  Mutex mutex;
  std::vector<FabricEvent> events;
  const auto saw = [&](FabricEvent::Kind kind) {
    const MutexLock lock(mutex);
    return std::any_of(events.begin(), events.end(),
                       [kind](const FabricEvent& event) { return event.kind == kind; });
  };
  manager_->watch([&](const FabricEvent& event) {
    const MutexLock lock(mutex);
    events.push_back(event);
  });
  ASSERT_TRUE(happens([&] { return saw(FabricEvent::Kind::kGap); }));
  fake_.with([](FakeManager& fake) { fake.partitions_[0].members.erase(0); });
  EXPECT_TRUE(happens([&] { return saw(FabricEvent::Kind::kPartition); }));
  fake_.with([](FakeManager& fake) { fake.services_[0]["Status"] = "UNREACHABLE"; });
  EXPECT_TRUE(happens([&] { return saw(FabricEvent::Kind::kControlPlane); }));
  fake_.stop();
  EXPECT_TRUE(happens([&] { return saw(FabricEvent::Kind::kUnreachable); }));
  manager_.reset();
}

TEST(NmxmAnswerTest, NumbersAreExactAndBounded) {
  const auto gpus = read_gpus(R"([{"ID": "a", "DeviceUID": 18446744073709551615, "DeviceID": 1}])");
  ASSERT_TRUE(gpus);
  EXPECT_EQ((*gpus)[0].gpu.uid, UINT64_MAX);
  for (const char* bad :
       {R"([{"ID": "a", "DeviceUID": 18446744073709551616, "DeviceID": 1}])",
        R"([{"ID": "a", "DeviceUID": -1, "DeviceID": 1}])",
        R"([{"ID": "a", "DeviceUID": 1.5, "DeviceID": 1}])",
        R"([{"ID": "a", "DeviceUID": 1, "DeviceID": 4294967296}])",
        R"([{"DeviceUID": 1, "DeviceID": 1}])", R"([{"ID": "", "DeviceUID": 1, "DeviceID": 1}])",
        "[1]", "7", "", "[{", R"([{"ID": "a", "DeviceUID": 1, "DeviceID": 1, "DomainUUID": "x"}])"})
    EXPECT_FALSE(read_gpus(bad)) << bad;
  EXPECT_EQ(read_gpus("null")->size(), 0U);
  EXPECT_EQ(read_gpus(R"({"ID": "a", "DeviceUID": 1, "DeviceID": 1})")->size(), 1U)
      << "one object for a list of one";
  EXPECT_FALSE(read_operation("[]"));
  EXPECT_FALSE(read_operation_id(R"({"operationId": 7})"));
}

TEST(NmxmAnswerTest, ErrorBodiesOfAnybodyAreReadable) {
  EXPECT_EQ(read_error(
                R"({"httpErrorCode": 404, "customErrorCode": "not-found", "description": "gone"})"),
            "gone (not-found)");
  EXPECT_EQ(read_error(R"({"message": "Unauthorized"})"), "Unauthorized");
  EXPECT_EQ(read_error("<html>\x1b[2J"), "<html>\\x1b[2J");
  EXPECT_EQ(read_error(""), "an empty body");
  EXPECT_EQ(read_error(std::string(5'000, 'x')).size(), 200U);
}

TEST(NmxmOptionsTest, EverythingThatIsWrongIsSaidAtOnce) {
  const auto refused =
      validate({.endpoints = {"ftp://a"}, .tls = {.key_file = "k"}, .password = log::Secret("p")});
  ASSERT_FALSE(refused);
  for (const char* part : {"ftp://a", "certificate", "without a user", "domain UUID"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos)
        << part << ": " << refused.error().message;
}

}  // namespace
}  // namespace imex::fabric::nmxm
