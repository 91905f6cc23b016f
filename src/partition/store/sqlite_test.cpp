// What only the embedded database does.
#include "sqlite.hpp"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/file.hpp"
#include "testing/store_kit.hpp"

namespace imex::partition::testing {
namespace {

using SqliteStoreTest = StoreTest;

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

TEST_F(SqliteStoreTest, ASecondProcessIsRefused) {
  const auto second = Store::open(database_->options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kAlreadyExists);
}

TEST_F(SqliteStoreTest, FilesAreForTheOwnerOnly) {
  static_cast<void>(make_world(store()));  // the log file comes with the first write
  const std::string path = database_->options().url;
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(mode_of(path + ".key"), 0600U);
  EXPECT_EQ(mode_of(path + "-wal"), 0600U);
}

TEST_F(SqliteStoreTest, CredentialsLieSealedInTheFile) {
  const World world = make_world(store());
  EndpointCredentials credentials;
  credentials.user = "a-very-special-user";
  credentials.password = log::Secret("a-very-special-password");
  must(store().put_credentials(kTester, world.endpoint.id, credentials));
  const std::string path = database_->options().url;
  store_.reset();
  const std::string bytes = must(os::read_file(path));
  EXPECT_NE(bytes.find("endpoint_credentials"), std::string::npos) << "this is the database";
  EXPECT_EQ(bytes.find("a-very-special"), std::string::npos);

  must(os::replace_file(path + ".key", std::vector<std::byte>(32), 0600));
  store_ = must(Store::open(database_->options()));
  const auto opened = store().credentials(world.endpoint.id);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kDataLoss);
}

TEST_F(SqliteStoreTest, AKeyThatOthersCanReadIsRefused) {
  const std::string path = database_->options().url;
  store_.reset();
  ASSERT_EQ(::chmod((path + ".key").c_str(), 0640), 0);
  const auto opened = Store::open(database_->options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kPermissionDenied);
}

TEST_F(SqliteStoreTest, ADatabaseOfANewerProgramIsRefused) {
  const std::string path = database_->options().url;
  store_.reset();
  {
    const auto database = sql::sqlite_database(path);
    const auto connection = must(database->connect(sql::Database::Use::kWrite));
    must(connection->script("UPDATE schema_version SET version = 1000"));
  }
  const auto opened = Store::open(database_->options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kVersionMismatch);
}

TEST_F(SqliteStoreTest, ADamagedRowIsAnErrorAndNotAnObject) {
  const World world = make_world(store());
  const std::string path = database_->options().url;
  {
    const auto database = sql::sqlite_database(path);
    const auto connection = must(database->connect(sql::Database::Use::kWrite));
    must(connection->script("UPDATE site SET status = 'Sleeping'"));
  }
  const auto result = store().read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY([[maybe_unused]] const auto site, t.find<Site>(world.site.id));
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kDataLoss);
}

}  // namespace
}  // namespace imex::partition::testing
