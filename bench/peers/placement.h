// How far apart two cores are, by the round trip of one cache line between them. The one place that
// says so, for `imex bench` and for the peers: C and C++.
#pragma once

static const double kRoundTripOneCoreNs = 70;  // below: the two are threads of one core
static const double kRoundTripFarNs = 180;     // from here on the line goes from one L3 to another
static const double kRoundTripMovedRatio = 1.6;

// "near", "far"; "hyperthreads" or "moved" (in between) for a row that must be dropped.
static inline const char* core_distance(double before_ns, double after_ns) {
  const double low = before_ns < after_ns ? before_ns : after_ns;
  const double high = before_ns < after_ns ? after_ns : before_ns;
  if (low < kRoundTripOneCoreNs) return "hyperthreads";
  if (high > kRoundTripMovedRatio * low) return "moved";
  if (low < kRoundTripFarNs) return high < kRoundTripFarNs ? "near" : "moved";
  return "far";
}
