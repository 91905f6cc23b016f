#include "os/file.hpp"
#include "store_kit.hpp"

namespace imex::partition::testing {
namespace {

class SqliteTestDatabase final : public TestDatabase {
 public:
  SqliteTestDatabase() : folder_(must(os::make_temporary_directory("imex-store"))) {}
  ~SqliteTestDatabase() override { static_cast<void>(os::remove_tree(folder_)); }
  [[nodiscard]] StoreOptions options() const override {
    return {.url = folder_ + "/controller.db"};
  }
  [[nodiscard]] bool shared() const override { return false; }

 private:
  std::string folder_;
};

}  // namespace

std::unique_ptr<TestDatabase> make_database() { return std::make_unique<SqliteTestDatabase>(); }

}  // namespace imex::partition::testing
