#include "bench/worker.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "os/process.hpp"
#include "os/socket.hpp"

namespace imex::bench {

Result<std::pair<os::UniqueFd, os::UniqueFd>> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(system_error(errno, "make a socket pair"));
  }
  return std::pair{os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
}

Result<void> Line::send(const Note& note) const {
  return os::send_packet(socket_.get(), std::as_bytes(std::span(&note, 1)));
}

Result<Note> Line::receive() const {
  IMEX_CHECK_OK(os::wait_readable(socket_.get(), std::chrono::steady_clock::now() + kNoteTimeout));
  Note note;
  IMEX_TRY(const os::Packet packet,
           os::receive_packet(socket_.get(), std::as_writable_bytes(std::span(&note, 1)), true));
  if (packet.bytes != sizeof note) {
    return fail(Errc::kPeerLost, "a process of the benchmark ended early; its error stands above");
  }
  return note;
}

Result<void> Line::send_samples(const Samples& samples) const {
  if (samples.empty() || samples.size() > kSamplesMax) {
    return fail(Errc::kInternal, "samples do not fit one packet");
  }
  return os::send_packet(socket_.get(), std::as_bytes(std::span(samples)));
}

Result<Samples> Line::receive_samples() const {
  IMEX_CHECK_OK(os::wait_readable(socket_.get(), std::chrono::steady_clock::now() + kNoteTimeout));
  Samples samples(kSamplesMax);
  IMEX_TRY(const os::Packet packet,
           os::receive_packet(socket_.get(), std::as_writable_bytes(std::span(samples)), true));
  if (packet.bytes == 0) {
    return fail(Errc::kPeerLost, "a process of the benchmark ended early; its error stands above");
  }
  samples.resize(packet.bytes / sizeof(Samples::value_type));
  return samples;
}

Result<Worker> Worker::start(const std::function<Result<void>(Line&)>& body,
                             std::optional<unsigned> core) {
  IMEX_TRY(auto ends, socket_pair());
  const std::int32_t parent = ::getpid();
  std::fflush(nullptr);  // else the child would print what the parent has buffered
  const std::int32_t pid = ::fork();
  if (pid < 0) return fail(system_error(errno, "fork a process of the benchmark"));
  if (pid > 0) return Worker(pid, Line(std::move(ends.first)));

  ends.first.reset();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before the call above
  Line line(std::move(ends.second));
  Result<void> done = core ? os::pin_to_core(*core) : Result<void>{};
  if (done) done = body(line);
  if (!done)
    std::fprintf(stderr, "imex: benchmark process: %s\n", done.error().to_string().c_str());
  std::fflush(nullptr);
  ::_exit(done ? 0 : 1);
}

Worker::Worker(Worker&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), line_(std::move(other.line_)) {}

Worker& Worker::operator=(Worker&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, -1);
    line_ = std::move(other.line_);
  }
  return *this;
}

Worker::~Worker() { end(); }

void Worker::kill() const noexcept {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void Worker::end() noexcept {
  if (pid_ <= 0) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace imex::bench
