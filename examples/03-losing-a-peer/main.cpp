// What a wait returns when the peer dies, and how to go on: docs/guide/03-losing-a-peer.md.
//
//   03-losing-a-peer CHANNEL      or $IMEX_CHANNEL
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <imex/imex.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

int failed(const char* who, const imex::Error& error) {
  std::fprintf(stderr, "%s: %s\n", who, error.to_string().c_str());
  return 1;
}

/// Exports a page, says its handle, and then does nothing for as long as its parent lives.
int run_peer(const std::string& channel, std::uint32_t rank, int parent) {
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed("peer", session.error());
  auto memory = imex::Allocation::create(4096);
  if (!memory) return failed("peer", memory.error());
  auto exported = session->export_memory(*memory, {.rank = rank});
  if (!exported) return failed("peer", exported.error());
  const std::string hex = exported->handle().to_hex();
  if (::write(parent, hex.data(), hex.size()) != static_cast<ssize_t>(hex.size())) return 1;
  char until_closed = 0;
  static_cast<void>(!::read(parent, &until_closed, 1));
  return 0;
}

struct Peer {
  pid_t pid = -1;
  int socket = -1;
};

/// To be called before this process opens a session: a child of fork() could not use it.
Peer start_peer(const std::string& channel, std::uint32_t rank) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return {};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(pair[0]);
    ::_exit(run_peer(channel, rank, pair[1]));
  }
  ::close(pair[1]);
  return {pid, pair[0]};
}

imex::Result<imex::Import> import_from(imex::Session& session, const Peer& peer,
                                       imex::AbortScope scope) {
  std::string hex(128, '\0');
  if (::recv(peer.socket, hex.data(), hex.size(), MSG_WAITALL) != 128) {
    return imex::fail(imex::Errc::kUnavailable, "the peer said no handle");
  }
  auto handle = imex::Handle::from_hex(hex);
  if (!handle) return imex::fail(handle.error());
  return session.import_memory(*handle, {.rank = 0, .scope = scope});
}

/// Waits for what never comes, until the scope is tripped.
imex::WaitResult wait_in_vain(imex::Import& from, imex::AbortScope scope) {
  imex::Signal signal(*reinterpret_cast<imex::SignalCell*>(from.data()));
  return signal.wait_until(
      1, {.deadline = Clock::now() + std::chrono::seconds(30), .abort = scope.cell()});
}

int run(const std::string& channel, const Peer& first, const Peer& second) {
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed("rank 0", session.error());

  // One scope for each communicator: what happens to one ends no wait of another.
  auto scope = session->create_scope();
  if (!scope) return failed("rank 0", scope.error());
  auto imported = import_from(*session, first, *scope);
  if (!imported) return failed("rank 0", imported.error());
  auto killed_at = Clock::now();
  std::thread killer([&] {
    killed_at = Clock::now();
    ::kill(first.pid, SIGKILL);
  });
  const imex::WaitResult lost = wait_in_vain(*imported, *scope);
  const auto ended_at = Clock::now();
  killer.join();
  if (lost.status != imex::WaitStatus::kAborted)
    return failed("rank 0", {.message = "no loss was told"});
  const imex::Error error = lost.to_result().error();
  std::printf("the wait ended %.0f us after SIGKILL: %s; rank %u\n",
              Microseconds(ended_at - killed_at).count(), error.to_string().c_str(), error.rank);

  // The same as an event, for a loop that polls.
  pollfd ready{session->event_fd(), POLLIN, 0};
  if (::poll(&ready, 1, 10'000) != 1) return 1;
  const auto event = session->next_event();
  if (!event || event->kind != imex::SessionEvent::Kind::kExporterLost) return 1;
  std::printf("event: the exporter, rank %u, is gone (%s); its memory stays mapped: byte 0 is %d\n",
              event->rank, std::string(imex::errc_name(event->reason)).c_str(),
              std::to_integer<int>(imported->data()[0]));

  // Go on with who is left: a new scope, a new import. The other scope never noticed.
  auto next_scope = session->create_scope();
  if (!next_scope) return failed("rank 0", next_scope.error());
  auto again = import_from(*session, second, *next_scope);
  if (!again) return failed("rank 0", again.error());
  std::thread user([scope = *next_scope]() mutable { scope.abort(0); });  // Ctrl-C, say
  const imex::WaitResult aborted = wait_in_vain(*again, *next_scope);
  user.join();
  if (aborted.status != imex::WaitStatus::kAborted)
    return failed("rank 0", {.message = "no abort"});
  std::printf("the next wait was ended by its user: %s\n",
              aborted.to_result().error().to_string().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* channel = argc > 1 ? argv[1] : std::getenv("IMEX_CHANNEL");
  if (channel == nullptr) {
    std::fprintf(stderr, "usage: %s CHANNEL   (or set IMEX_CHANNEL)\n", argv[0]);
    return 2;
  }
  const Peer first = start_peer(channel, 1), second = start_peer(channel, 2);
  if (first.pid < 0 || second.pid < 0) return 1;
  const int result = run(channel, first, second);
  for (const Peer& peer : {first, second}) {
    ::close(peer.socket);
    ::kill(peer.pid, SIGKILL);
    ::waitpid(peer.pid, nullptr, 0);
  }
  return result;
}
