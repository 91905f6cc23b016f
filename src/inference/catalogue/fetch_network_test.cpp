// The real download, into the cache of this user: what is there already is only checked.
#include <gtest/gtest.h>

#include "inference/catalogue/fetch.hpp"

namespace imex::inference {
namespace {

TEST(FetchNetworkTest, EveryModelOfTheCatalogueCanBeFetched) {
  const auto cache = ModelCache::from_environment();
  if (!cache) GTEST_SKIP() << cache.error().to_string();
  for (const CatalogueModel& model : catalogue()) {
    const auto fetched = fetch_model(model, *cache);
    if (!fetched && fetched.error().code != Errc::kDataLoss) {
      GTEST_SKIP() << fetched.error().to_string();  // offline, or downloads are switched off
    }
    ASSERT_TRUE(fetched) << fetched.error().to_string();
    EXPECT_EQ(find_model(model.name, *cache).value(), fetched->path);
  }
}

}  // namespace
}  // namespace imex::inference
