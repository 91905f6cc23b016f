// An importer without libimex: bare system calls and the frames of docs/formats/channel.md. It
// never acknowledges anything and keeps its mapping whatever it is told.
//   hostile_importer CHANNEL HANDLE    then, for each line of input, prints the first byte it sees
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

constexpr std::size_t kFrame = 256;
using Frame = std::array<unsigned char, kFrame>;

template <class T>
void put(Frame& frame, std::size_t at, T value) {
  std::memcpy(frame.data() + at, &value, sizeof value);
}

Frame header(std::uint16_t type, std::uint32_t request) {
  Frame frame{};
  std::memcpy(frame.data(), "IMXF", 4);
  put<std::uint16_t>(frame, 4, 1);
  put(frame, 6, type);
  put(frame, 8, request);
  return frame;
}

bool send(int socket, const Frame& frame, const int* fds, std::size_t count) {
  iovec part{const_cast<unsigned char*>(frame.data()), frame.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count != 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(kFrame);
}

/// The answer, and the first of the descriptors with it; events are passed over.
bool receive(int socket, Frame& frame, int& fd) {
  for (;;) {
    iovec part{frame.data(), frame.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket, &message, 0) != static_cast<ssize_t>(kFrame)) return false;
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    if (rights != nullptr) std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    if (frame[6] == 9) return true;  // Reply
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 3 || std::strlen(argv[2]) != 128) return 2;
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, argv[1], sizeof(address.sun_path) - 1);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 3;

  // An abort page as its format asks for, so that the session opens.
  const int page = ::memfd_create("abort", MFD_ALLOW_SEALING);
  if (::ftruncate(page, 4096) != 0) return 3;
  Frame abort_header{};
  std::memcpy(abort_header.data(), "IMEXABR1", 8);
  put<std::uint16_t>(abort_header, 8, 1);
  put<std::uint16_t>(abort_header, 10, 63);
  if (::pwrite(page, abort_header.data(), 64, 0) != 64) return 3;
  if (::fcntl(page, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return 3;
  const std::array<int, 2> passed{page, static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  Frame open = header(1, 1);
  put<std::uint32_t>(open, 40, 0xffff'ffffU);  // any GPU
  Frame answer{};
  int fd = -1;
  if (!send(socket, open, passed.data(), passed.size()) || !receive(socket, answer, fd)) return 4;
  if (answer[16] != 0) return 5;

  Frame import = header(4, 2);
  for (std::size_t i = 0; i != 64; ++i) {
    import[16 + i] =
        static_cast<unsigned char>(std::stoul(std::string(argv[2] + 2 * i, 2), nullptr, 16));
  }
  if (!send(socket, import, nullptr, 0) || !receive(socket, answer, fd)) return 6;
  if (answer[16] != 0 || fd < 0) return 7;
  void* mapped = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return 8;
  const auto* data = static_cast<volatile unsigned char*>(mapped);
  std::printf("%d\n", data[0]);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
    std::printf("%d\n", data[0]);
    std::fflush(stdout);
  }
  return 0;
}
