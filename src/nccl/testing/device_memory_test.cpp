// Memory of a device is refused with the reason; linked so that it finds fake_cuda.c as the driver.
#include <dlfcn.h>

#include <array>
#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imex/nccl/nccl.h>

namespace {

using testing::HasSubstr;

class DeviceMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY);
    ASSERT_NE(driver, nullptr) << ::dlerror();
    mark_ = reinterpret_cast<Mark>(::dlsym(driver, "fake_cuda_mark"));
    ASSERT_NE(mark_, nullptr) << "this is a driver of NVIDIA, not fake_cuda.c";
    ASSERT_EQ(ncclCommInitAll(&comm_, 1, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  }
  void TearDown() override { EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess); }

  void mark(bool initialised) { mark_(on_device_.data(), sizeof on_device_, initialised ? 1 : 0); }

  using Mark = void (*)(const void*, std::uint64_t, int);
  Mark mark_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::array<int, 4> on_device_{1, 2, 3, 4}, on_host_{};
};

TEST_F(DeviceMemoryTest, IsRefusedWithTheReason) {
  mark(true);
  const auto reduce = [&](const int* in, int* out) {
    return ncclAllReduce(in, out, 4, ncclInt32, ncclSum, comm_, nullptr);
  };
  EXPECT_EQ(reduce(on_device_.data(), on_host_.data()), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr),
              testing::AllOf(HasSubstr("the send buffer is memory of a CUDA device"),
                             HasSubstr("no CUDA backend yet")));
  EXPECT_EQ(reduce(on_host_.data(), on_device_.data()), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("the receive buffer"));
  EXPECT_EQ(reduce(on_host_.data(), on_host_.data()), ncclSuccess);
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(comm_, on_device_.data(), 4, &handle), ncclInvalidArgument);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comm_, on_device_.data(), 4, &window, NCCL_WIN_DEFAULT),
            ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(on_device_.data()), ncclInvalidArgument);
}

TEST_F(DeviceMemoryTest, ThereIsNoneBeforeTheDriverIsInitialised) {
  mark(false);
  EXPECT_EQ(
      ncclAllReduce(on_device_.data(), on_host_.data(), 4, ncclInt32, ncclSum, comm_, nullptr),
      ncclSuccess);
  EXPECT_EQ(on_host_, on_device_);
}

}  // namespace
