// Time of GetPartitionInfoList on one or more fabric controllers, one call after the other, with
// their own TCP connection:
//   imex-rack --racks 100 --listen 127.0.0.1:19000 &
//   rack_bench 19000 100 2000
// Arguments: first port, racks, calls. Prints one line of JSON, times in microseconds.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <nmx_c/nmx_c.grpc.pb.h>

namespace {

using Stub = nmx_c::NMX_Controller::Stub;

unsigned number(const char* text) {
  unsigned value = 0;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

std::unique_ptr<Stub> open(unsigned port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  auto stub = nmx_c::NMX_Controller::NewStub(grpc::CreateCustomChannel(
      fmt::format("127.0.0.1:{}", port), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  nmx_c::ClientHello hello;
  hello.set_gateway_id("bench");
  hello.set_major_version(nmx_c::PROTO_MAJOR_CURRENT);
  nmx_c::ServerHello answer;
  const bool ok = stub->Hello(&context, hello, &answer).ok() &&
                  answer.server_header().return_code() == nmx_c::NMX_ST_SUCCESS;
  return ok ? std::move(stub) : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: rack_bench FIRST_PORT RACKS CALLS\n";
    return 64;
  }
  std::vector<std::unique_ptr<Stub>> stubs;
  for (unsigned i = 0; i < number(argv[2]); ++i) {
    stubs.push_back(open(number(argv[1]) + i));
    if (!stubs.back()) return 69;
  }
  std::vector<double> times_us;
  for (unsigned call = 0; call < number(argv[3]) && !stubs.empty(); ++call) {
    grpc::ClientContext context;
    nmx_c::GetPartitionInfoListRequest request;
    request.set_gateway_id("bench");
    nmx_c::GetPartitionInfoListResponse answer;
    const auto begin = std::chrono::steady_clock::now();
    const grpc::Status status =
        stubs[call % stubs.size()]->GetPartitionInfoList(&context, request, &answer);
    const auto end = std::chrono::steady_clock::now();
    if (!status.ok() || answer.partition_info_list_size() == 0)
      return 70;  // outside the timed part
    times_us.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  if (times_us.empty()) return 64;
  std::ranges::sort(times_us);
  const auto at = [&](double share) {
    return times_us[static_cast<std::size_t>(share * static_cast<double>(times_us.size() - 1))];
  };
  std::cout << fmt::format(
      "{{\"call\":\"GetPartitionInfoList\",\"racks\":{},\"n\":{},\"min_us\":{:.1f},\"median_us\":{:"
      ".1f},\"p99_us\":{:.1f},\"max_us\":{:.1f}}}\n",
      stubs.size(), times_us.size(), times_us.front(), at(0.5), at(0.99), times_us.back());
  return 0;
}
