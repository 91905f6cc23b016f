/* As much of CUDA's header as the header of NCCL asks for. */
#ifndef IMEX_TEST_CUDA_RUNTIME_H
#define IMEX_TEST_CUDA_RUNTIME_H
#include <stddef.h>
#define CUDART_VERSION 12080
typedef struct CUstream_st* cudaStream_t;
#endif
