// Two processes exchange through exported memory: docs/guide/01-share-memory.md.
//
//   01-share-memory CHANNEL [CHANNEL_OF_THE_OTHER]      or $IMEX_CHANNEL
//
// Rank 0 exports 2 MiB and rank 1 imports it; with a second channel, rank 1 runs on that one
// (another node's socket of the same channel). The daemons only introduce them: no byte passes
// through one.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <imex/imex.hpp>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytes = std::size_t{2} << 20;
constexpr std::uint64_t kRounds = 20'000;

/// What lies at the start of the shared memory. All zero is a good start, and that is how it comes.
struct Layout {
  imex::SignalCell ping;
  alignas(128) imex::SignalCell pong;
  alignas(128) char text[256];
};

/// Waits that can be ended: by a deadline, and by the loss of the peer.
imex::WaitOptions guarded(const imex::Session& session) {
  return {.deadline = Clock::now() + std::chrono::seconds(30),
          .abort = session.default_scope().cell(),
          .policy = imex::WaitPolicy::for_ranks(2)};
}

int failed(int rank, const imex::Error& error) {
  std::fprintf(stderr, "rank %d: %s\n", rank, error.to_string().c_str());
  return 1;
}

void introduce(int rank, const imex::Session& session) {
  std::printf("rank %d: process %d, channel %u of node %u, GPU %u\n", rank, ::getpid(),
              session.channel(), session.node_id(), session.gpu_index());
  std::fflush(stdout);
}

int run_exporter(const std::string& channel, int to_peer) {
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed(0, session.error());
  introduce(0, *session);
  auto memory = imex::Allocation::create(kBytes);
  if (!memory) return failed(0, memory.error());
  auto* shared = reinterpret_cast<Layout*>(memory->data());
  std::snprintf(shared->text, sizeof shared->text, "hello from process %d", ::getpid());

  // Losing rank 1 shall end our waits, so the export names the scope that they watch.
  auto exported = session->export_memory(*memory, {.rank = 0, .scope = session->default_scope()});
  if (!exported) return failed(0, exported.error());
  const std::string handle = exported->handle().to_hex();
  if (::write(to_peer, handle.data(), handle.size()) != static_cast<ssize_t>(handle.size()))
    return 1;

  imex::Signal ping(shared->ping), pong(shared->pong);
  std::vector<double> one_way_ns;
  one_way_ns.reserve(kRounds);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const auto start = Clock::now();
    ping.notify();
    const auto seen = pong.wait_until(round, guarded(*session));
    if (!seen.ok()) return failed(0, seen.to_result().error());
    one_way_ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                         2);
  }
  std::ranges::sort(one_way_ns);
  std::printf("rank 0: %zu round trips; one way: median %.0f ns, p99 %.0f ns\n", one_way_ns.size(),
              one_way_ns[kRounds / 2], one_way_ns[kRounds * 99 / 100]);
  return 0;
}

int run_importer(const std::string& channel, int from_peer) {
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed(1, session.error());
  introduce(1, *session);
  std::string hex(128, '\0');
  if (::recv(from_peer, hex.data(), hex.size(), MSG_WAITALL) != 128) return 1;
  const auto handle = imex::Handle::from_hex(hex);
  if (!handle) return failed(1, handle.error());
  auto imported = session->import_memory(*handle, {.rank = 1});
  if (!imported) return failed(1, imported.error());
  auto* shared = reinterpret_cast<Layout*>(imported->data());

  imex::Signal ping(shared->ping), pong(shared->pong);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const auto seen = ping.wait_until(round, guarded(*session));
    if (!seen.ok()) return failed(1, seen.to_result().error());
    if (round == 1) {
      std::printf("rank 1: mapped %zu bytes of rank %u, reads \"%s\"\n", imported->size(),
                  imported->exporter_rank(), shared->text);
      std::fflush(stdout);
    }
    pong.notify();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* channel = argc > 1 ? argv[1] : std::getenv("IMEX_CHANNEL");
  if (channel == nullptr || argc > 3) {
    std::fprintf(stderr, "usage: %s CHANNEL [CHANNEL_OF_THE_OTHER]   (or set IMEX_CHANNEL)\n",
                 argv[0]);
    return 2;
  }
  // The way in which the handle travels is the application's own: here a socket pair.
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 1;
  const pid_t child = ::fork();  // before any session is opened
  if (child < 0) return 1;
  if (child == 0) {
    ::close(pair[0]);  // so that the end of rank 0 is seen while waiting for the handle
    return run_importer(argc > 2 ? argv[2] : channel, pair[1]);
  }
  ::close(pair[1]);
  const int own = run_exporter(channel, pair[0]);
  ::close(pair[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return own != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0 ? 1 : 0;
}
