// What a program outside the tree can do without a daemon: memory, signals, and a clear refusal.
#include <cstdio>

#include <imex/imex.hpp>

int main() {
  auto memory = imex::Allocation::create(1 << 16);
  if (!memory) return 1;
  auto* cell = reinterpret_cast<imex::SignalCell*>(memory->data());
  imex::Signal(*cell).notify(2);
  if (!imex::Signal(*cell).wait_until(2, {}).ok()) return 2;
  const auto session = imex::Session::open({.channel = "/nonexistent/channel0"});
  if (session || session.error().code != imex::Errc::kNotFound) return 3;
  std::printf("consumer of %s: %s\n", IMEX_VERSION_STRING, session.error().to_string().c_str());
  return 0;
}
