// A real PostgreSQL 15: one server per test executable, one database per test. Its socket lies in
// a temporary folder, it listens on no TCP port. Root may not run it, so root starts it as user
// postgres.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <pwd.h>

#include "os/file.hpp"
#include "os/process.hpp"
#include "postgres.hpp"
#include "store_kit.hpp"

namespace imex::partition::testing {
namespace {

constexpr const char* kBinaries = "/usr/lib/postgresql/15/bin";

class PostgresServer {
 public:
  /// Null without the server's binaries.
  static PostgresServer* get() {
    static std::unique_ptr<PostgresServer> server = start();
    return server.get();
  }
  ~PostgresServer() {
    // Immediate shutdown: the server ends its own children, which a SIGKILL would leave.
    if (process_ != nullptr) {
      static_cast<void>(process_->kill(SIGQUIT));
      static_cast<void>(process_->wait(std::chrono::seconds(30)));
    }
    static_cast<void>(os::remove_tree(folder_));
  }
  [[nodiscard]] std::string url(const std::string& database) const {
    return fmt::format("host={} user=imex dbname={}", folder_, database);
  }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  static std::unique_ptr<PostgresServer> start() {
    if (::access(fmt::format("{}/postgres", kBinaries).c_str(), X_OK) != 0) {
      std::printf("skipped: no %s/postgres; install postgresql-15\n", kBinaries);
      return nullptr;
    }
    std::unique_ptr<PostgresServer> server(new PostgresServer);
    server->folder_ = must(os::make_temporary_directory("imex-pg"));
    const std::string data = server->folder_ + "/data";
    if (::getuid() == 0) {
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr || ::chown(server->folder_.c_str(), user->pw_uid, user->pw_gid) != 0) {
        std::printf("skipped: root cannot start PostgreSQL without a user postgres\n");
        return nullptr;
      }
    }
    auto initdb = server->run({fmt::format("{}/initdb", kBinaries), "-D", data, "-U", "imex",
                               "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8"});
    if (initdb->wait(std::chrono::seconds(60)) != 0) {
      ADD_FAILURE() << "initdb: " << must(os::read_file(server->folder_ + "/log"));
      return nullptr;
    }
    server->process_ =
        server->run({fmt::format("{}/postgres", kBinaries), "-D", data, "-k", server->folder_, "-c",
                     "listen_addresses=", "-c", "max_connections=100"});
    server->wait_until_ready();
    return server;
  }

  std::unique_ptr<os::Child> run(std::vector<std::string> arguments) {
    if (::getuid() == 0)
      arguments.insert(arguments.begin(),
                       {"/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups",
                        // Changing the user forgets who dies with whom.
                        "--pdeathsig=QUIT", "--"});
    const os::UniqueFd log = must(os::open_for_append(folder_ + "/log", false));
    return std::make_unique<os::Child>(must(os::Child::start({.arguments = std::move(arguments),
                                                              .environment = {},
                                                              .stdout_fd = log.get(),
                                                              .stderr_fd = log.get()})));
  }

  void wait_until_ready() {
    const auto database = sql::postgres_database(url("postgres"));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!database->connect(sql::Database::Use::kRead)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "PostgreSQL did not start: " << must(os::read_file(folder_ + "/log"));
        std::abort();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  std::string folder_;
  std::unique_ptr<os::Child> process_;
};

class PostgresTestDatabase final : public TestDatabase {
 public:
  PostgresTestDatabase(const PostgresServer& server, std::string name)
      : server_(server),
        name_(std::move(name)),
        folder_(must(os::make_temporary_directory("imex-key"))) {
    const auto maintenance = sql::postgres_database(server_.url("postgres"));
    must(must(maintenance->connect(sql::Database::Use::kWrite))
             ->script(fmt::format("CREATE DATABASE {}", name_)));
  }
  ~PostgresTestDatabase() override { static_cast<void>(os::remove_tree(folder_)); }
  [[nodiscard]] StoreOptions options() const override {
    return {.url = server_.url(name_), .key_file = folder_ + "/key"};
  }
  [[nodiscard]] bool shared() const override { return true; }

 private:
  const PostgresServer& server_;
  std::string name_;
  std::string folder_;
};

}  // namespace

std::unique_ptr<TestDatabase> make_database() {
  static std::atomic<int> count{0};
  const PostgresServer* server = PostgresServer::get();
  if (server == nullptr) return nullptr;
  return std::make_unique<PostgresTestDatabase>(*server, fmt::format("test_{}", ++count));
}

}  // namespace imex::partition::testing
