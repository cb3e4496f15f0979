#include "kernels/trace_labels.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(TraceLabels, ANodeHasTheLabelOfItsCapture) {
  TraceLabels labels;
  labels.set_current(7);
  labels.node_made(100);
  labels.set_current(8);
  labels.node_made(101);
  labels.set_current(0);
  EXPECT_EQ(labels.of(100, 0), 7U);
  EXPECT_EQ(labels.of(101, 0), 8U);
}

// What runs is a copy of what was captured, and a graph may be copied more than once.
TEST(TraceLabels, CopiesOfANodeHaveItsLabel) {
  TraceLabels labels;
  labels.set_current(7);
  labels.node_made(100);
  labels.set_current(9);
  labels.node_copied(100, 200);
  labels.node_copied(100, 300);
  labels.node_copied(300, 301);
  EXPECT_EQ(labels.of(200, 0), 7U);
  EXPECT_EQ(labels.of(301, 0), 7U);
}

// A launch of a graph is one call, whose label is not that of its nodes.
TEST(TraceLabels, WithoutANodeTheCallDecides) {
  TraceLabels labels;
  labels.set_current(7);
  labels.call_entered(40);
  labels.node_made(100);
  labels.set_current(8);
  labels.call_entered(41);
  EXPECT_EQ(labels.of(0, 40), 7U);
  EXPECT_EQ(labels.of(0, 41), 8U);
  EXPECT_EQ(labels.of(100, 41), 7U);
}

TEST(TraceLabels, WhatNobodySawHasNone) {
  TraceLabels labels;
  labels.set_current(7);
  labels.call_entered(40);
  labels.node_copied(5, 6);
  EXPECT_EQ(labels.of(0, 41), 0U);
  EXPECT_EQ(labels.of(6, 40), 0U);
  EXPECT_EQ(labels.nodes(), 0U);
  labels.forget_calls();
  EXPECT_EQ(labels.of(0, 40), 0U);
}

TEST(TraceLabels, EveryOneHasItsOwnNumber) {
  const TraceLabels one;
  const TraceLabels other;
  EXPECT_GT(one.number(), 0);
  EXPECT_NE(one.number(), other.number());
}

}  // namespace
}  // namespace moetune
