/* A program written against NCCL, on host memory: docs/guide/04-nccl-programs.md.
 *
 *   04-nccl-programs
 *
 * Two ranks, as processes: the sum of a vector, then a message to the neighbour. */
#define _POSIX_C_SOURCE 200809L
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRanks = 2, kCount = 1 << 20 };

static int failed(int rank, const char* what, ncclResult_t result) {
  fprintf(stderr, "rank %d: %s: %s: %s\n", rank, what, ncclGetErrorString(result),
          ncclGetLastError(NULL));
  return 1;
}

static int sum_and_swap(int rank, ncclComm_t comm, float* data) {
  ncclResult_t result = ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, comm, NULL);
  if (result != ncclSuccess) return failed(rank, "ncclAllReduce", result);
  printf("rank %d: the sum is %.1f\n", rank, (double)data[kCount - 1]);

  const int next = (rank + 1) % kRanks, previous = (rank + kRanks - 1) % kRanks;
  const int own = 100 + rank;
  int received = 0;
  ncclGroupStart();
  ncclSend(&own, 1, ncclInt32, next, comm, NULL);
  ncclRecv(&received, 1, ncclInt32, previous, comm, NULL);
  result = ncclGroupEnd();
  if (result != ncclSuccess) return failed(rank, "ncclGroupEnd", result);
  printf("rank %d: rank %d sends %d\n", rank, previous, received);
  return 0;
}

static int run_rank(int rank, ncclUniqueId id) {
  ncclComm_t comm = NULL;
  void* memory = NULL;
  ncclResult_t result = ncclCommInitRank(&comm, kRanks, id, rank);
  if (result != ncclSuccess) return failed(rank, "ncclCommInitRank", result);
  result = ncclMemAlloc(&memory, kCount * sizeof(float));
  if (result != ncclSuccess) return failed(rank, "ncclMemAlloc", result);
  float* data = memory;
  for (int i = 0; i != kCount; ++i) data[i] = (float)rank + 1.0F;
  const int status = sum_and_swap(rank, comm, data);
  ncclMemFree(memory);
  ncclCommDestroy(comm);
  return status;
}

int main(void) {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id); /* this process stays until both have met */
  if (result != ncclSuccess) return failed(0, "ncclGetUniqueId", result);
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    const int status = run_rank(1, id);
    fflush(stdout);
    _exit(status);
  }
  int status = run_rank(0, id), of_child = 1;
  if (waitpid(child, &of_child, 0) != child || of_child != 0) status = 1;
  return status;
}
