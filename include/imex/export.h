/** Marks what the shared library shows; everything else of it is hidden. C and C++. */
#ifndef IMEX_EXPORT_H
#define IMEX_EXPORT_H

#if defined(__GNUC__)
#define IMEX_API __attribute__((visibility("default")))
#else
#define IMEX_API
#endif

#endif
