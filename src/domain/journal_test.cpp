#include "domain/journal.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace imex::domain {
namespace {

Uuid uuid_of(std::uint8_t tag) {
  Uuid id;
  id.bytes.fill(static_cast<std::byte>(tag));
  return id;
}

JournalHeader header() {
  JournalHeader h;
  h.boot_id = uuid_of(1);
  h.domain_id = uuid_of(2);
  h.instance = uuid_of(3);
  h.key.fill(std::byte{4});
  h.node = 5;
  h.list_digest = uuid_of(6);
  h.alive_ns = 7;
  return h;
}

const std::vector<JournalRecord>& records() {
  static const std::vector<JournalRecord> all = {NextIdRecord{1025},
                                                 SessionRecord{1, 2, 1000, 0x77, 4242, 99},
                                                 SessionRecord{2, 2, 1000, 0x78, 4243, 98},
                                                 SessionEndedRecord{2},
                                                 ImporterRecord{3, true},
                                                 ImporterRecord{4, true},
                                                 ImporterRecord{4, false},
                                                 AssignmentRecord{{"job", 2, {0, 3}}},
                                                 AssignmentRecord{{"old", 3, {1}}},
                                                 AssignmentRecord{{"old", 3, {}}},
                                                 GrantRecord{"job", 2, 1000, {0x77, 0x78}},
                                                 GrantRecord{"gone", 3, 1, {}},
                                                 ReleaseRecord{"gone"}};
  return all;
}

std::vector<std::byte> log_of(const std::vector<JournalRecord>& list,
                              std::vector<std::size_t>* ends = nullptr) {
  auto log = encode_journal_header(header());
  for (const JournalRecord& record : list) {
    const auto bytes = encode_journal_record(record);
    log.insert(log.end(), bytes.begin(), bytes.end());
    if (ends != nullptr) ends->push_back(log.size());
  }
  return log;
}

TEST(JournalTest, RecordsAddUpToTheState) {
  const auto state = decode_journal(log_of(records()));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->header, header());
  EXPECT_EQ(state->next_id, 1025U);
  ASSERT_EQ(state->sessions.size(), 1U);
  EXPECT_EQ(state->sessions.at(1), (SessionRecord{1, 2, 1000, 0x77, 4242, 99}));
  EXPECT_EQ(state->importers, std::set<NodeId>{3});
  EXPECT_EQ(state->assignments.size(), 1U);
  EXPECT_EQ(state->assignments.at("job").holders, (std::set<NodeId>{0, 3}));
  EXPECT_EQ(state->grants.size(), 1U);
  EXPECT_EQ(state->grants.at("job").gpu_uids, (std::vector<std::uint64_t>{0x77, 0x78}));
  EXPECT_FALSE(state->clean_stop);
}

TEST(JournalTest, CompactedJournalGivesTheSameStateInFewerBytes) {
  const auto log = log_of(records());
  const auto state = decode_journal(log);
  const auto compact = compact_journal(*state);
  EXPECT_LT(compact.size(), log.size());
  EXPECT_EQ(*decode_journal(compact), *state);
}

TEST(JournalTest, TailTornAtAnyByteIsCutToTheLastWholeRecord) {
  std::vector<std::size_t> ends = {kJournalHeaderBytes};
  const auto log = log_of(records(), &ends);
  for (std::size_t size = kJournalHeaderBytes; size <= log.size(); ++size) {
    std::size_t used = 0;
    const auto state = decode_journal(std::span(log).first(size), &used);
    ASSERT_TRUE(state) << "at " << size;
    const auto whole = std::prev(std::upper_bound(ends.begin(), ends.end(), size));
    EXPECT_EQ(used, *whole);
  }
  for (std::size_t size = 0; size < kJournalHeaderBytes; ++size) {
    EXPECT_EQ(decode_journal(std::span(log).first(size)).error().code, Errc::kDataLoss);
  }
}

TEST(JournalTest, DamageBeforeTheLastRecordIsDataLossAndInItIsCut) {
  std::vector<std::size_t> ends;
  const auto log = log_of(records(), &ends);
  const std::size_t last = ends[ends.size() - 2];
  for (std::size_t at = kJournalHeaderBytes; at < log.size(); ++at) {
    auto damaged = log;
    damaged[at] ^= std::byte{0x10};
    std::size_t used = 0;
    const auto state = decode_journal(damaged, &used);
    if (at < last) {
      ASSERT_FALSE(state) << "byte " << at;
      EXPECT_EQ(state.error().code, Errc::kDataLoss);
    } else {
      ASSERT_TRUE(state) << "byte " << at;
      EXPECT_EQ(used, last);
    }
  }
}

TEST(JournalTest, EveryByteOfTheHeaderIsCheckedButTheLifeSign) {
  const auto log = log_of({});
  for (std::size_t at = 0; at < kJournalHeaderBytes - 8; ++at) {
    auto damaged = log;
    damaged[at] ^= std::byte{1};
    const bool alive = at >= kJournalAliveOffset && at < kJournalAliveOffset + 8;
    EXPECT_EQ(decode_journal(damaged).has_value(), alive) << "byte " << at;
  }
}

TEST(JournalTest, LifeSignIsRewrittenInPlace) {
  auto log = log_of(records());
  const std::int64_t later = 123'456'789;
  std::memcpy(log.data() + kJournalAliveOffset, &later, sizeof later);
  EXPECT_EQ(decode_journal(log)->header.alive_ns, later);
}

TEST(JournalTest, AnotherVersionIsToldApartFromDamage) {
  auto log = log_of({});
  log[8] = std::byte{9};
  EXPECT_EQ(decode_journal(log).error().code, Errc::kVersionMismatch);
}

TEST(JournalTest, CleanStopIsRemembered) {
  auto list = records();
  list.emplace_back(CleanStopRecord{});
  EXPECT_TRUE(decode_journal(log_of(list))->clean_stop);
}

TEST(JournalTest, NextIdNeverGoesBack) {
  EXPECT_EQ(decode_journal(log_of({NextIdRecord{2049}, NextIdRecord{1025}}))->next_id, 2049U);
}

TEST(JournalTest, LongestNamesAndListsFit) {
  GrantRecord grant{std::string(kWorkloadBytesMax, 'w'), 1, 2, {}};
  grant.gpu_uids.resize(kJournalListMax, 7);
  const auto state = decode_journal(log_of({grant}));
  ASSERT_TRUE(state);
  EXPECT_EQ(state->grants.at(grant.workload), grant);
}

TEST(JournalTest, RandomBytesNeverDecodeIntoRecords) {
  std::minstd_rand random(7);
  for (int round = 0; round < 2000; ++round) {
    auto log = log_of({NextIdRecord{1025}});
    const std::size_t whole = log.size();
    for (std::size_t i = 0; i < random() % 300; ++i)
      log.push_back(static_cast<std::byte>(random()));
    std::size_t used = 0;
    ASSERT_TRUE(decode_journal(log, &used));
    EXPECT_EQ(used, whole);
  }
}

TEST(JournalTest, ANewInstanceKeepsTheNumbersOfOthersAndNothingOfItsOwn) {
  JournalState former;
  former.header.node = 4;
  former.header.domain_id.bytes[0] = std::byte{1};
  former.sessions[7] = {7, 1, 0, 9, 11, 13};
  former.next_id = 2049;
  former.grants["both"] = {"both", 1, 0, {}};
  former.assignments["both"] = {"both", 1, {2, 4}};
  former.assignments["own"] = {"own", 2, {4}};
  former.assignments["other"] = {"other", 3, {5}};
  former.clean_stop = true;
  JournalHeader fresh = former.header;
  fresh.instance.bytes[0] = std::byte{8};

  JournalState expected;
  expected.header = fresh;
  expected.assignments["both"] = {"both", 1, {2}};
  expected.assignments["other"] = {"other", 3, {5}};
  EXPECT_EQ(succeed_journal(former, fresh), expected);

  // Another place in the list: what that place held is not its own either.
  fresh.node = 5;
  expected.header = fresh;
  expected.assignments.erase("other");
  EXPECT_EQ(succeed_journal(former, fresh), expected);

  fresh.domain_id.bytes[0] = std::byte{2};
  expected.header = fresh;
  expected.assignments.clear();
  EXPECT_EQ(succeed_journal(former, fresh), expected);
}

}  // namespace
}  // namespace imex::domain
