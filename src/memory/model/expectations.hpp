/// What tests of the shipped protocols say about a report of the checker.
#pragma once

#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "model/checker.hpp"

namespace imex::memory::model {

/// Every interleaving was looked at, and none is wrong.
inline void expect_proven(const Report& report) {
  EXPECT_TRUE(report.complete);
  EXPECT_FALSE(report.counterexample) << *report.counterexample;
  EXPECT_GT(report.states, 10U);
  std::cout << "[ proven   ] " << report.states << " states\n";
}

/// The mutation is found out, by the failure named.
inline void expect_caught(const Report& report, const std::string& by) {
  ASSERT_TRUE(report.counterexample) << "a wrong protocol passed " << report.states << " states";
  EXPECT_NE(report.counterexample->find(by), std::string::npos) << *report.counterexample;
  std::cout << "[ caught   ] " << *report.counterexample;
}

}  // namespace imex::memory::model
