#include "identity.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>

namespace imex::domain {
namespace {

using Strings = std::vector<std::string>;

NodeList list_of(std::size_t count) {
  NodeList list;
  for (std::size_t i = 0; i < count; ++i)
    list.entries.push_back({"node-" + std::to_string(i), true});
  return list;
}

TEST(OwnSlot, IsTheFirstEntryThatAnInterfaceCarries) {
  const Strings addresses = {"", "10.0.0.1", "10.0.0.2", "10.0.0.3"};
  const OwnSlot own =
      find_own_slot(list_of(4), addresses, "", {"127.0.0.1", "10.0.0.3", "10.0.0.2"});
  EXPECT_EQ(own.node, 2);
  EXPECT_EQ(own.address, "10.0.0.2");
}

TEST(OwnSlot, IsNotWhereUnassignedSlotsPointEvenIfAnInterfaceHasThatAddress) {
  EXPECT_EQ(find_own_slot(list_of(1), {"127.0.0.2"}, "", {"127.0.0.2"}).node, kNoNode);
}

TEST(OwnSlot, IsDecidedByTheBindAddressAloneWhenThereIsOne) {
  const Strings addresses = {"10.0.0.1", "127.88.0.2"};
  EXPECT_EQ(find_own_slot(list_of(2), addresses, "127.88.0.2", {"10.0.0.1"}).node, 1);
  EXPECT_EQ(find_own_slot(list_of(2), addresses, "127.88.0.9", {"10.0.0.1"}).node, kNoNode);
}

TEST(OwnSlot, ComparesLinkLocalAddressesWithoutTheirInterface) {
  EXPECT_EQ(find_own_slot(list_of(1), {"fe80::1"}, "", {"fe80::1%eth0"}).node, 0);
}

// The rendered list of Kubernetes: 18 names, of which the hosts file knows the own one. The search
// ends inside the call, so no name server can delay the start.
TEST(OwnSlotFinder, WaitsForNobodyWhenTheHostsFileNamesTheOwnSlot) {
  const std::string path = testing::TempDir() + "imex-hosts." + std::to_string(::getpid());
  std::ofstream(path) << "127.88.0.5 node-4\n";
  DaemonConfig config;
  config.bind_ip = "127.88.0.5";
  net::EventLoop loop;  // never runs
  net::Resolver::Config names;
  names.hosts_path = path;
  net::Resolver resolver(loop, names);
  OwnSlotFinder finder(resolver, config);
  std::optional<OwnSlot> own;
  finder.find(list_of(18), [&own](OwnSlot found) { own = std::move(found); });
  std::filesystem::remove(path);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->node, 4);
  EXPECT_EQ(own->address, "127.88.0.5");
}

TEST(InterfaceAddresses, HaveTheLoopbackOne) {
  EXPECT_THAT(interface_addresses(), testing::Contains("127.0.0.1"));
}

}  // namespace
}  // namespace imex::domain
