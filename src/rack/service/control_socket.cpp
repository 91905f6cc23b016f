#include "control_socket.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "os/file.hpp"
#include "os/socket.hpp"

namespace imex::rack {

namespace {

constexpr std::size_t kClientsMax = 64, kRequestBytesMax = 64U << 10U, kPacketBytes = 32U << 10U;

}  // namespace

struct ControlSocket::Client {
  os::UniqueFd fd;
  std::string in, out;
  std::unique_ptr<net::FdWatch> watch;
};

Result<std::unique_ptr<ControlSocket>> ControlSocket::listen(net::EventLoop& loop,
                                                             const std::string& path,
                                                             Answer answer) {
  IMEX_TRY(os::UniqueFd listener, os::listen_unix(path, 0600));
  return std::unique_ptr<ControlSocket>(
      new ControlSocket(loop, std::move(listener), path, std::move(answer)));
}

ControlSocket::ControlSocket(net::EventLoop& loop, os::UniqueFd listener, std::string path,
                             Answer answer)
    : loop_(loop),
      listener_(std::move(listener)),
      path_(std::move(path)),
      answer_(std::move(answer)),
      watch_(std::make_unique<net::FdWatch>(loop, listener_.get())) {
  watch_->on_readable([this] { accept(); });
}

ControlSocket::~ControlSocket() {
  watch_.reset();
  for (const auto& client : clients_) client->watch.reset();
  os::remove_file(path_);
}

void ControlSocket::accept() {
  auto fd = os::accept_unix(listener_.get());
  if (!fd || clients_.size() >= kClientsMax) return;  // one too many is closed at once
  auto client = std::make_unique<Client>();
  client->fd = std::move(*fd);
  client->watch = std::make_unique<net::FdWatch>(loop_, client->fd.get());
  Client& kept = *clients_.emplace_back(std::move(client));
  kept.watch->on_readable([this, &kept] { read(kept); });
}

void ControlSocket::read(Client& client) {
  std::array<char, kPacketBytes> buffer;
  const auto packet =
      os::receive_packet(client.fd.get(), std::as_writable_bytes(std::span(buffer)), false);
  if (!packet && packet.error().code == Errc::kResourceExhausted) return;
  if (!packet || packet->bytes == 0 || packet->truncated) return drop(client);
  client.in.append(buffer.data(), packet->bytes);
  for (auto end = client.in.find('\n'); end != std::string::npos; end = client.in.find('\n')) {
    client.out += answer_(std::string_view(client.in).substr(0, end)) + "\n";
    client.in.erase(0, end + 1);
  }
  if (client.in.size() > kRequestBytesMax) return drop(client);
  write(client);
}

void ControlSocket::write(Client& client) {
  while (!client.out.empty()) {
    const auto bytes =
        std::as_bytes(std::span(client.out)).first(std::min(client.out.size(), kPacketBytes));
    const auto sent = os::send_packet(client.fd.get(), bytes, {}, false);
    if (!sent && sent.error().code == Errc::kResourceExhausted) {
      // Until this is read nothing more is: whoever does not listen is not served.
      client.watch->on_readable({});
      return client.watch->on_writable([this, &client] { write(client); });
    }
    if (!sent) return drop(client);
    client.out.erase(0, bytes.size());
  }
  client.watch->on_writable({});
  client.watch->on_readable([this, &client] { read(client); });
}

void ControlSocket::drop(const Client& client) {
  std::erase_if(clients_, [&](const auto& known) {
    if (known.get() != &client) return false;
    known->watch.reset();
    return true;
  });
}

}  // namespace imex::rack
