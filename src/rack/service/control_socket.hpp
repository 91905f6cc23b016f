/// The control socket: packets of a Unix socket that together make lines of JSON.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "net/event_loop.hpp"
#include "os/fd.hpp"

namespace imex::rack {

class ControlSocket {
 public:
  using Answer = std::function<std::string(std::string_view request)>;
  /// Errors: those of the socket; kAlreadyExists: another rack listens there.
  [[nodiscard]] static Result<std::unique_ptr<ControlSocket>> listen(net::EventLoop& loop,
                                                                     const std::string& path,
                                                                     Answer answer);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  struct Client;
  ControlSocket(net::EventLoop& loop, os::UniqueFd listener, std::string path, Answer answer);
  void accept();
  void read(Client& client);
  void write(Client& client);
  void drop(const Client& client);

  net::EventLoop& loop_;
  os::UniqueFd listener_;
  const std::string path_;
  const Answer answer_;
  std::list<std::unique_ptr<Client>> clients_;
  std::unique_ptr<net::FdWatch> watch_;  ///< last: first to go
};

}  // namespace imex::rack
