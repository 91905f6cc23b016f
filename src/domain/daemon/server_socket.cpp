#include "server_socket.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "net/resolver.hpp"
#include "os/fd.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"

namespace imex::domain {

namespace {

constexpr std::size_t kProcBytesMax = 16U << 20U;

struct FreeAddress {
  void operator()(addrinfo* info) const noexcept { ::freeaddrinfo(info); }
};

/// Inodes of sockets that listen on the port, whatever their address.
std::vector<std::string> listening_inodes(const std::string& table, std::uint16_t port) {
  std::vector<std::string> inodes;
  const auto text = os::read_file(table, kProcBytesMax);
  if (!text) return inodes;
  std::istringstream lines(*text);
  std::string line;
  std::getline(lines, line);  // the heading
  const std::string wanted = fmt::format(":{:04X}", port);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::array<std::string, 10> field;
    for (std::string& each : field) fields >> each;
    constexpr const char* kListen = "0A";
    if (field[1].ends_with(wanted) && field[3] == kListen) inodes.push_back(field[9]);
  }
  return inodes;
}

bool holds_socket(const std::string& pid, const std::vector<std::string>& inodes) {
  const std::string directory = "/proc/" + pid + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> fds(::opendir(directory.c_str()), ::closedir);
  if (!fds) return false;
  while (const dirent* entry = ::readdir(fds.get())) {
    std::array<char, 64> target{};
    const auto size =
        ::readlinkat(::dirfd(fds.get()), entry->d_name, target.data(), target.size() - 1);
    if (size <= 0) continue;
    const std::string link(target.data(), static_cast<std::size_t>(size));
    for (const std::string& inode : inodes) {
      if (link == "socket:[" + inode + "]") return true;
    }
  }
  return false;
}

/// "process 4711 (imexd)", or nothing: other users' descriptors are not visible.
std::string holder_of(std::uint16_t port) {
  auto inodes = listening_inodes("/proc/net/tcp", port);
  std::ranges::copy(listening_inodes("/proc/net/tcp6", port), std::back_inserter(inodes));
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc && !inodes.empty() ? ::readdir(proc.get()) : nullptr) {
    const std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_socket(pid, inodes)) continue;
    auto name = os::read_file("/proc/" + pid + "/comm", 64);
    if (name && name->ends_with('\n')) name->pop_back();
    return fmt::format("process {} ({})", pid, name ? *name : std::string("unknown"));
  }
  return {};
}

}  // namespace

Result<ServerSocket> listen_tcp(const std::string& address, std::uint16_t port) {
  const std::string endpoint = net::endpoint_text(address, port);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0) {
    return fail(Errc::kInvalidArgument, fmt::format("listen on {}: not an address", endpoint));
  }
  const std::unique_ptr<addrinfo, FreeAddress> info(raw);
  os::UniqueFd socket(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail(system_error(errno, "listen on " + endpoint));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accepted ones inherit it
  const bool bound = ::bind(socket.get(), info->ai_addr, info->ai_addrlen) == 0 &&
                     ::listen(socket.get(), SOMAXCONN) == 0;
  if (bound) return ServerSocket{std::move(socket), endpoint, {}};
  const int problem = errno;
  Error error = system_error(problem, "listen on " + endpoint);
  if (problem == EADDRINUSE) {
    error.code = Errc::kAlreadyExists;
    const std::string holder = holder_of(port);
    error.hint = holder.empty() ? "another program has the port; see: ss -ltnp"
                                : fmt::format("{} has the port", holder);
  }
  return fail(std::move(error));
}

Result<ServerSocket> listen_local(const std::string& path, std::uint32_t mode) {
  IMEX_TRY(os::UniqueFd socket, os::listen_unix(path, mode, SOMAXCONN, os::UnixSocket::kStream));
  return ServerSocket{std::move(socket), path, path};
}

}  // namespace imex::domain
