/** Which release these headers are of. C and C++. The library's own: imex_version(). */
#ifndef IMEX_VERSION_H
#define IMEX_VERSION_H

#define IMEX_VERSION_MAJOR 0
#define IMEX_VERSION_MINOR 1
#define IMEX_VERSION_PATCH 0
#define IMEX_VERSION_STRING "0.1.0"

/** Grows with each release: usable in #if. */
#define IMEX_VERSION_NUMBER \
  (IMEX_VERSION_MAJOR * 1000000 + IMEX_VERSION_MINOR * 1000 + IMEX_VERSION_PATCH)

#endif
