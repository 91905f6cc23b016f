// The other process of the session tests: does what its arguments say, one line of output for each
// step, until its input ends.
//   peer export CHANNEL RANK BYTES     prints the handle
//   peer import CHANNEL RANK HANDLE    prints the first byte
//   peer cycles CHANNEL COUNT SEED     children that export, import and end, some by SIGKILL
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>

#include <imex/session.hpp>

namespace {

using imex::Error;

int failed(const char* what, const Error& error) {
  std::fprintf(stderr, "peer: %s: %s\n", what, error.to_string().c_str());
  return 1;
}

void until_input_ends() {
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}

int run_export(const std::string& channel, std::uint32_t rank, std::size_t bytes) {
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed("open", session.error());
  auto memory = imex::Allocation::create(bytes);
  if (!memory) return failed("allocate", memory.error());
  std::memset(memory->data(), 0x5a, memory->size());
  auto exported = session->export_memory(*memory, {.rank = rank});
  if (!exported) return failed("export", exported.error());
  std::cout << exported->handle().to_hex() << std::endl;
  until_input_ends();
  return 0;
}

int run_import(const std::string& channel, std::uint32_t rank, const std::string& hex) {
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed("open", session.error());
  auto handle = imex::Handle::from_hex(hex);
  if (!handle) return failed("handle", handle.error());
  auto imported = session->import_memory(*handle, {.rank = rank});
  if (!imported) return failed("import", imported.error());
  std::cout << std::to_integer<int>(*imported->data()) << std::endl;
  until_input_ends();
  return 0;
}

/// One life: each step may be the last.
int cycle(const std::string& channel, unsigned last_step) {
  const auto step = [last_step](unsigned number) {
    if (number == last_step) ::raise(SIGKILL);
  };
  step(0);
  auto session = imex::Session::open({.channel = channel});
  if (!session) return failed("open", session.error());
  step(1);
  auto memory = imex::Allocation::create(8192, {.pages = imex::Pages::kSmall});
  if (!memory) return failed("allocate", memory.error());
  auto exported = session->export_memory(*memory, {.rank = 1});
  if (!exported) return failed("export", exported.error());
  step(2);
  auto imported = session->import_memory(exported->handle(), {.rank = 1});
  if (!imported) return failed("import", imported.error());
  step(3);
  *imported->data() = std::byte{42};
  return *memory->data() == std::byte{42} ? 0 : 1;
}

int run_cycles(const std::string& channel, unsigned count, unsigned seed) {
  std::minstd_rand random(seed);
  for (unsigned i = 0; i != count; ++i) {
    const unsigned last_step = random() % 8;  // 4 to 7: none, ends in order
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child == 0) ::_exit(cycle(channel, last_step));
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return 1;
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && last_step < 4;
    const bool in_order = WIFEXITED(status) && WEXITSTATUS(status) == 0 && last_step >= 4;
    if (!killed && !in_order) {
      std::fprintf(stderr, "peer: cycle %u, last step %u: status %d\n", i, last_step, status);
      return 1;
    }
  }
  std::cout << "done" << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5) return 2;
  const std::string role = argv[1], channel = argv[2];
  const auto number = [](const char* text) {
    return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
  };
  if (role == "export") return run_export(channel, number(argv[3]), number(argv[4]));
  if (role == "import") return run_import(channel, number(argv[3]), argv[4]);
  if (role == "cycles") return run_cycles(channel, number(argv[3]), number(argv[4]));
  return 2;
}
