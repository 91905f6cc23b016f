#include "upper/upper.hpp"
int use() { return upper(); }
