#include "lower/lower.hpp"
int lower() { return 1; }
