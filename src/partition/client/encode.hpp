/// From requests to JSON bodies of the API.
#pragma once

#include <string>

#include "partition/client/requests.hpp"

namespace imex::partition::client {

[[nodiscard]] std::string encode(const NewPartition& wanted);
[[nodiscard]] std::string encode(const PartitionChange& change);
[[nodiscard]] std::string encode(const NewVpc& wanted);
[[nodiscard]] std::string encode(const VpcChange& change);
/// `count` 1: of POST /instance; more: of POST /instance/batch.
[[nodiscard]] std::string encode(const NewInstance& wanted, std::uint32_t count);
[[nodiscard]] std::string encode(const InstanceChange& change);

}  // namespace imex::partition::client
