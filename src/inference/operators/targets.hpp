// Which instruction sets the operators are compiled for; included before anything of Highway.
//   AVX3_DL     some hypervisors report it without having all of it
//   SVE         its vectors have no size at compile time: they can be no arrays of accumulators.
//               Processors that have it run the NEON code.
#pragma once

#ifdef IMEX_FEW_TARGETS  // builds whose compilation costs much
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
