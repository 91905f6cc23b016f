/// Drives a fuzz target without libFuzzer, so that every ordinary test run (any compiler, any
/// sanitizer) replays the kept corpus and tries mutations of it for a while.
///
///     frame_fuzz --seconds 1 [--seed N] CORPUS_DIR...
///
/// Not guided by coverage: that is what the preset fuzz is for. The seed is printed and taken back.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kMaxInputBytes = 65'536;

struct Options {
  std::uint64_t seconds = 1;
  std::uint64_t seed = 0;
  std::vector<std::filesystem::path> corpus;
};

bool parse_number(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse(int argc, char** argv, Options& options) {
  options.seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--seconds" || argument == "--seed") {
      std::uint64_t& target = argument == "--seed" ? options.seed : options.seconds;
      if (++i == argc || !parse_number(argv[i], target)) return false;
    } else {
      options.corpus.emplace_back(argument);
    }
  }
  return true;
}

std::vector<Bytes> load(const std::vector<std::filesystem::path>& directories) {
  std::vector<Bytes> inputs;
  for (const auto& directory : directories) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      std::ifstream file(entry.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return inputs;
}

/// One to eight small changes: a bit flips, a byte becomes a border value, bytes vanish or repeat.
void mutate(Bytes& input, std::mt19937_64& random) {
  static constexpr std::uint8_t kBorders[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  for (auto changes = random() % 8 + 1; changes != 0; --changes) {
    if (input.empty()) {
      input.push_back(static_cast<std::uint8_t>(random()));
      continue;
    }
    const std::size_t at = random() % input.size();
    const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1U << random() % 8);
        break;
      case 1:
        input[at] = kBorders[random() % std::size(kBorders)];
        break;
      case 2:
        input.erase(here, here + static_cast<std::ptrdiff_t>(
                                     random() % std::min<std::size_t>(input.size() - at, 32) + 1));
        break;
      case 3:
        input.insert(here, random() % 64 + 1, static_cast<std::uint8_t>(random()));
        break;
      default:
        input.resize(random() % (input.size() * 2 + 1));
        break;
    }
  }
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs("usage: FUZZER [--seconds N] [--seed N] CORPUS_DIR...\n", stderr);
    return 2;
  }
  const std::vector<Bytes> corpus = load(options.corpus);
  std::printf("seed %llu, %zu corpus inputs\n", static_cast<unsigned long long>(options.seed),
              corpus.size());
  std::fflush(stdout);
  if (corpus.empty()) {
    std::fputs("the corpus is empty: keep at least one valid input\n", stderr);
    return 1;
  }
  for (const Bytes& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());

  std::mt19937_64 random(options.seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  std::uint64_t runs = corpus.size();
  while (std::chrono::steady_clock::now() < end) {
    Bytes input = corpus[random() % corpus.size()];
    mutate(input, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return 0;
}
