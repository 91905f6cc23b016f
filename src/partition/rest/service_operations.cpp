// Apart from the rest of this room, so that tests with operations of their own link no service.
#include "partition/rest/rest_server.hpp"

namespace imex::partition {

std::vector<RestOperation> operations_of(Service& service) {
  std::vector<RestOperation> operations;
  for (const Operation& one : Service::operations()) {
    operations.push_back(
        {one.method, one.path, one.name,
         [&service, run = one.run](const Request& request) { return (service.*run)(request); }});
  }
  return operations;
}

}  // namespace imex::partition
