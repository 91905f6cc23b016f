// Bytes of a stranger to a real server: it answers or closes, within its bounds, and goes on
// serving. The first byte chooses at which points the bytes are cut into pieces.
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "net/http/server.hpp"
#include "os/file.hpp"
#include "os/poll.hpp"
#include "os/socket.hpp"
#include "os/stream.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using namespace imex::net::http;

/// On a Unix socket: a long run would use up the machine's TCP ports.
class Target {
 public:
  Target() : folder_(*imex::os::make_temporary_directory("imex-http-fuzz-")) {
    Router router;
    const auto echo = [](const Request& request) {
      IMEX_ASSERT(request.body.size() <= 4096, "bodies are bounded");
      return Response::text(200, request.path + request.body);
    };
    router.add(Method::kGet, "/a/{b}", echo, {.immediate = true});
    router.add(Method::kPost, "/a/{b}", echo);
    ServerOptions options;
    options.listeners = {{.address = "unix:" + path()}};
    options.threads = 1;
    options.header_bytes_max = 2048;
    options.body_bytes_max = 4096;
    server_ = std::move(*Server::start(std::move(options), std::move(router)));
  }
  ~Target() {
    server_.reset();
    static_cast<void>(imex::os::remove_tree(folder_));
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/socket"; }

 private:
  std::string folder_;
  std::unique_ptr<Server> server_;
};

void wait_for(int fd, bool for_write) {
  std::array<imex::os::PollItem, 1> item{
      {{.fd = fd, .want_read = !for_write, .want_write = for_write}}};
  IMEX_ASSERT(imex::os::poll_any(item, std::chrono::steady_clock::now() + std::chrono::seconds(4)),
              "poll works");
  IMEX_ASSERT(item[0].readable || item[0].writable || item[0].hung_up, "it goes on");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace imex;
  if (size < 2 || size > 16384) return 0;
  static const Target target;
  auto socket = os::connect_unix(target.path(), std::chrono::seconds(4), os::UnixSocket::kStream);
  IMEX_ASSERT(socket && os::set_non_blocking(socket->get()), "a socket");
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = data[0] == 0 ? rest.size() : data[0];
  while (!rest.empty()) {
    const auto sent = os::send_some(socket->get(), rest.substr(0, piece));
    if (!sent) break;  // the server has refused and closed
    rest.remove_prefix(*sent);
    if (*sent == 0) wait_for(socket->get(), true);
  }
  ::shutdown(socket->get(), SHUT_WR);
  std::array<char, 4096> room{};
  for (;;) {
    wait_for(socket->get(), false);
    const auto bytes = os::receive_some(socket->get(), room);
    if (!bytes || (*bytes && **bytes == 0)) return 0;
  }
}
