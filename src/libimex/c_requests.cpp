// The C API of operations that are started and waited for later.
#include <cstdint>
#include <utility>

#include "c_communicator.hpp"

namespace {

using imex::c::check_both;
using imex::c::check_vector;
using imex::c::missing;
using imex::c::to_op;
using imex::c::to_type;

/// Neither the communicator nor the place for the request is null.
int check_start(const imex_communicator* communicator, imex_request** request) {
  if (communicator == nullptr) return missing("communicator");
  return request == nullptr ? missing("request") : int{IMEX_OK};
}

}  // namespace

int imex_start_all_reduce(imex_communicator* communicator, const void* in, void* out, size_t count,
                          imex_data_type type, imex_reduce_op op, uint32_t lane,
                          imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  return imex::c::give(
      communicator->value.start_all_reduce(in, out, count, to_type(type), to_op(op), lane),
      request);
}

int imex_start_reduce_scatter(imex_communicator* communicator, const void* in, void* out,
                              size_t count, imex_data_type type, imex_reduce_op op, uint32_t lane,
                              imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  return imex::c::give(
      communicator->value.start_reduce_scatter(in, out, count, to_type(type), to_op(op), lane),
      request);
}

int imex_start_all_gather(imex_communicator* communicator, const void* in, void* out, size_t bytes,
                          uint32_t lane, imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  const std::uint32_t parts = communicator->value.size();
  if (const int code = check_both(communicator, in, 1, out, parts, bytes); code != IMEX_OK) {
    return code;
  }
  return imex::c::give(communicator->value.start_all_gather(in, out, bytes, lane), request);
}

int imex_start_broadcast(imex_communicator* communicator, void* buffer, size_t bytes, uint32_t root,
                         uint32_t lane, imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  if (const int code = check_vector(buffer, bytes, 1, "buffer"); code != IMEX_OK) return code;
  return imex::c::give(communicator->value.start_broadcast(buffer, bytes, root, lane), request);
}

int imex_start_reduce(imex_communicator* communicator, const void* in, void* out, size_t count,
                      imex_data_type type, imex_reduce_op op, uint32_t root, uint32_t lane,
                      imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  return imex::c::give(
      communicator->value.start_reduce(in, out, count, to_type(type), to_op(op), root, lane),
      request);
}

int imex_start_all_to_all(imex_communicator* communicator, const void* in, void* out, size_t bytes,
                          uint32_t lane, imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  const std::uint32_t parts = communicator->value.size();
  if (const int code = check_both(communicator, in, parts, out, parts, bytes); code != IMEX_OK) {
    return code;
  }
  return imex::c::give(communicator->value.start_all_to_all(in, out, bytes, lane), request);
}

int imex_start_send(imex_communicator* communicator, const void* data, size_t bytes, uint32_t peer,
                    uint32_t lane, imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  return imex::c::give(communicator->value.start_send(data, bytes, peer, lane), request);
}

int imex_start_receive(imex_communicator* communicator, void* data, size_t bytes, uint32_t peer,
                       uint32_t lane, imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  return imex::c::give(communicator->value.start_receive(data, bytes, peer, lane), request);
}

int imex_start_barrier(imex_communicator* communicator, uint32_t lane, imex_request** request) {
  if (const int code = check_start(communicator, request); code != IMEX_OK) return code;
  return imex::c::give(communicator->value.start_barrier(lane), request);
}

int imex_request_is_done(const imex_request* request) { return request->value.test() ? 1 : 0; }

int imex_request_wait(imex_request* request) {
  if (request == nullptr) return missing("request");
  return imex::c::done(request->value.wait());
}

void imex_request_end(imex_request* request) { delete request; }
