// How fast matrix products are, against the limit of the machine: for one token plainly reading the
// same bytes, measured between the products; for many tokens a number of operations.
//
//   matrix_bench [processes] [seconds per type] [instruction set]
//
// With two processes each measures on its own, at the same time; their bandwidths add up.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string_view>
#include <vector>

#include "inference/matrix/product.hpp"

namespace imex::inference {
namespace {

/// Time of this thread alone: other programs may take the processor in between.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  static time_point now() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The wide loads that a reader without any work would do, from eight places at once: the
/// prefetchers of a processor follow each of them.
__attribute__((target("avx2"))) std::uint64_t read_all(const std::byte* bytes, std::size_t count) {
  using Vector = long long __attribute__((vector_size(32), aligned(1), may_alias));
  constexpr std::size_t kPlaces = 8;
  Vector sums[kPlaces] = {};
  const auto* vectors = reinterpret_cast<const Vector*>(bytes);
  const std::size_t part = count / 32 / kPlaces;
  for (std::size_t i = 0; i + 4 <= part; i += 4) {
    for (std::size_t k = 0; k != kPlaces; ++k) {
      const Vector* const from = vectors + k * part + i;
      __builtin_prefetch(from + 32);
      __builtin_prefetch(from + 34);
      sums[k] ^= from[0] ^ from[1] ^ from[2] ^ from[3];
    }
  }
  std::uint64_t sum = 0;
  for (const Vector& v : sums) sum ^= static_cast<std::uint64_t>(v[0] ^ v[1] ^ v[2] ^ v[3]);
  return sum;
}

struct Shape {
  std::size_t rows, columns;
};

/// The 90th percentile: what the machine gives when its other users leave it alone.
double best(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() * 9 / 10];
}

volatile std::uint64_t sink = 0;

/// Many copies of one matrix in more memory than any cache has.
class Matrices {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 20U;

  Matrices(TensorType type, Shape shape, std::vector<std::byte>& memory)
      : type_(type), shape_(shape) {
    const TypeLayout& layout = layout_of(type);
    const MatrixFormat format = *matrix_format(type);
    std::vector<std::byte> source(shape.rows * shape.columns / layout.block_elements *
                                  layout.block_bytes);
    std::minstd_rand random(1);
    for (std::byte& byte : source)
      byte = static_cast<std::byte>(((random() >> 8U) & 0x1bU) | 0x20U);
    bytes_ = format.packed ? packed_bytes(type, shape.rows, shape.columns) : source.size();
    count_ = std::max<std::size_t>(1, kBytes / bytes_);
    memory_ = memory.data();
    for (std::size_t i = 0; i != count_; ++i) {
      const std::span<std::byte> image(memory_ + i * bytes_, bytes_);
      if (i != 0) {
        std::memcpy(image.data(), memory_, bytes_);
      } else if (format.packed) {
        pack_rows({type, shape.rows, shape.columns, source}, 0, (shape.rows + 15) / 16, image);
      } else {
        std::memcpy(image.data(), source.data(), bytes_);
      }
    }
  }
  [[nodiscard]] MatrixView operator[](std::size_t i) const {
    const std::span<const std::byte> image(memory_ + i % count_ * bytes_, bytes_);
    return matrix_format(type_)->packed
               ? MatrixView::packed(type_, image, shape_.rows, shape_.columns)
               : MatrixView::plain(type_, image, shape_.rows, shape_.columns);
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  TensorType type_;
  Shape shape_;
  std::size_t bytes_ = 0, count_ = 0;
  const std::byte* base() const { return memory_; }
  std::byte* memory_ = nullptr;
};

std::vector<float> inputs(std::size_t count) {
  std::minstd_rand random(2);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// One token: products of some 8 MB, then reading the next 8 MB, and so on around the memory.
void decode(const char* name, const Matrices& matrices, Shape shape, double seconds) {
  Activations in(1, shape.columns);
  const std::vector<float> values = inputs(shape.columns);
  std::vector<float> out(shape.rows);
  const std::size_t burst = std::max<std::size_t>(1, (std::size_t{4} << 20U) / matrices.bytes());
  std::vector<double> product_gbs;
  std::vector<double> read_gbs;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  const double bytes = static_cast<double>(burst * matrices.bytes());
  for (std::size_t i = 0; Clock::now() < end || product_gbs.size() < 5;) {
    Clock::time_point begin = Clock::now();
    for (std::size_t k = 0; k != burst; ++k, ++i) {
      in.set(values, 1, shape.columns);
      multiply(matrices[i], in, out.data(), shape.rows);
    }
    product_gbs.push_back(bytes / seconds_since(begin) * 1e-9);
    begin = Clock::now();
    for (std::size_t k = 0; k != burst; ++k, ++i) {
      const MatrixView matrix = matrices[i];
      sink = sink ^ read_all(matrix.data(), matrices.bytes());
    }
    read_gbs.push_back(bytes / seconds_since(begin) * 1e-9);
  }
  const double products = best(product_gbs);
  const double read = best(read_gbs);
  std::printf("decode  %-5s %6zu x %-5zu  %6.2f GB/s of %6.2f GB/s: %3.0f %%\n", name, shape.rows,
              shape.columns, products, read, 100 * products / read);
}

void prefill(TensorType type, const Matrices& matrices, Shape shape, double seconds) {
  const char* const name = layout_of(type).name.data();
  constexpr std::size_t kTokens = 256;
  Activations in(kTokens, shape.columns);
  const std::vector<float> values = inputs(kTokens * shape.columns);
  std::vector<float> out(kTokens * shape.rows);
  std::vector<double> rates;
  std::size_t i = 0;
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < seconds || rates.size() < 3) {
    const Clock::time_point begin = Clock::now();
    in.set(values, kTokens, shape.columns,
           matrix_format(type)->packed ? Activations::Form::kPacked : Activations::Form::kPlain);
    multiply(matrices[i++], in, out.data(), shape.rows);
    rates.push_back(2e-9 * static_cast<double>(kTokens * shape.rows * shape.columns) /
                    seconds_since(begin));
  }
  std::printf("prefill %-5s %6zu x %-5zu  %6.1f GFLOP/s\n", name, shape.rows, shape.columns,
              best(rates));
}

void measure(double seconds, std::string_view only) {
  std::vector<std::byte> memory(Matrices::kBytes + (std::size_t{64} << 20U));
  constexpr TensorType kTypes[] = {TensorType::kQ41,  TensorType::kQ80, TensorType::kF16,
                                   TensorType::kBf16, TensorType::kF32, TensorType::kQ40,
                                   TensorType::kQ50,  TensorType::kQ51, TensorType::kQ4K,
                                   TensorType::kQ5K,  TensorType::kQ6K};
  for (const TensorType type : kTypes) {
    const char* const name = layout_of(type).name.data();
    if (!only.empty() && only != name) continue;
    for (Shape shape : {Shape{576, 1536}, Shape{1536, 576}, Shape{49152, 576}}) {
      const std::size_t unit = matrix_format(type)->column_unit;
      shape.columns = (shape.columns + unit - 1) / unit * unit;
      const Matrices matrices(type, shape, memory);
      decode(name, matrices, shape, seconds);
      if (shape.rows < 49152) prefill(type, matrices, shape, seconds);
    }
  }
}

}  // namespace
}  // namespace imex::inference

int main(int argc, char** argv) {
  using namespace imex::inference;
  const int processes = argc > 1 ? std::atoi(argv[1]) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1.0;
  const std::string_view only = argc > 3 ? argv[3] : "";
  if (argc > 4) use_kernel_target(argv[4]);
  std::printf("%s, %d process(es)\n", std::string(kernel_target()).c_str(), processes);
  std::fflush(stdout);
  for (int i = 1; i < processes; ++i) {
    if (fork() == 0) break;
  }
  measure(seconds, only);
  std::fflush(stdout);
  while (wait(nullptr) > 0) {
  }
  return 0;
}
