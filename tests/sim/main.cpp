/// sim --seed N: replays one history of the simulated domain and prints it.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "domain_sim.hpp"

int main(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "--seed") {
    std::cerr << "usage: sim --seed N\n";
    return 64;
  }
  const auto result = imex::sim::run_domain_sim({std::strtoull(argv[2], nullptr, 10), true});
  std::cout << result.history;
  for (const auto& [mark, times] : result.marks)
    std::cout << "reached: " << mark << " x" << times << '\n';
  std::cout << "seed " << result.seed << ": "
            << (result.violation.empty() ? "all rules held" : result.violation) << '\n';
  return result.violation.empty() ? 0 : 1;
}
