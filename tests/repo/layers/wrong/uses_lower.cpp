#include "lower/lower.hpp"
int use() { return lower(); }
