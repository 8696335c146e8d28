// Drafts that are recorded, written, read and drafted again.

#include "speculative/replay_proposer.h"

#include <fstream>

#include <gtest/gtest.h>

#include "speculative/proposer_entry.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::TempDir;
using Tokens = std::vector<int32_t>;

DraftRecord record_of(const Sequence& seq) {
  DraftRecord record;
  RequestDrafts& drafts = record[seq.key];
  drafts.prompt = prompt_digest(std::span(seq.tokens).first(size_t(seq.num_prompt)));
  drafts.at[3] = DraftTree::chain({7, 8});
  drafts.at[5] = {.token = {4, 5, 6, 7}, .parent = {-1, -1, 0, 2}, .score = {}};
  return record;
}

TEST(DraftRecord, IsReadAsItIsWritten) {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "drafts.jsonl";
  const DraftRecord record = record_of({.id = 1, .key = 9, .tokens = {1, 2, 3}, .num_prompt = 2});
  std::ofstream(file) << draft_record_text(record);
  const DraftRecord read = read_draft_record(file, 10);
  ASSERT_EQ(read.size(), 1u);
  const RequestDrafts& request = read.at(9);
  // as other programs write JSON, on other systems
  std::ofstream(file)
      << "{\"paceline_drafts\": 1}\r\n{\"request\": 9, \"prompt\": \"0000000000000001\", \"drafts\": []}\r\n";
  EXPECT_EQ(read_draft_record(file, 10).size(), 1u);
  EXPECT_EQ(request.prompt, record.at(9).prompt);
  EXPECT_EQ(request.line, 2);
  EXPECT_EQ(request.at.at(3).token, (Tokens{7, 8}));
  EXPECT_EQ(request.at.at(3).parent, (Tokens{-1, 0}));
  EXPECT_EQ(request.at.at(5).token, record.at(9).at.at(5).token);
  EXPECT_EQ(request.at.at(5).parent, record.at(9).at.at(5).parent);
}

TEST(DraftRecord, WhatIsWrongIsNamedWithItsLine) {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "drafts.jsonl";
  const std::string head = "{\"paceline_drafts\":1}\n";
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& pieces) {
    std::ofstream(file) << text;
    expect_error(ExitCode::model_file, pieces, [&] { read_draft_record(file, 10); });
  };
  refuses("", {"drafts.jsonl:1", "no record of drafts", "measure.record_drafts"});
  refuses("{\"id\": 3}\n", {"drafts.jsonl:1", "no record of drafts"});
  refuses(head + "{\"request\": 1", {"drafts.jsonl:2"});
  refuses(head + "[]", {"drafts.jsonl:2", "\"request\" is missing"});
  refuses(head + R"({"request":"1","prompt":"0000000000000001","drafts":[]})", {":2", "\"request\": expected"});
  refuses(head + R"({"request":1,"prompt":"xyz","drafts":[]})", {":2", "\"prompt\": expected 16 hex digits"});
  refuses(head + R"({"request":1,"prompt":"0000000000000001"})", {":2", "\"drafts\": expected a list"});
  const auto with = [&](const std::string& drafts) {
    return head + R"({"request":1,"prompt":"0000000000000001","drafts":[)" + drafts + "]}\n";
  };
  for (const char* const digest : {"-00000000000000f", "0x0000000000000f", "00000000000000FF", "               1"})
    refuses(head + R"({"request":1,"prompt":")" + digest + R"(","drafts":[]})", {":2", "expected 16 hex digits"});
  refuses(head + R"({"request":18446744073709551615,"prompt":"0000000000000001","drafts":[]})", {":2", "\"request\""});
  refuses(with("{}"), {":2", "\"at\" is missing"});
  refuses(with(R"({"at":4294967299,"token":[1]})"), {":2", "\"at\": expected a number of tokens"});
  refuses(with(R"({"at":0,"token":[1]})"), {":2", "\"at\": found 0", "1 at least"});
  refuses(with(R"({"at":3,"token":[1]},{"at":3,"token":[2]})"), {":2", "behind 3 tokens", "there twice"});
  refuses(with(R"({"at":3})"), {":2", "\"token\" is missing"});
  refuses(with(R"({"at":3,"token":[10]})"), {":2", "10 is none of the target's ids, 0 to 9"});
  refuses(with(R"({"at":3,"token":[1.5]})"), {":2", "\"token\": expected"});
  refuses(with(R"({"at":3,"token":[1,2],"parent":[-1]})"), {":2", "2 drafts with 1 parents"});
  refuses(with(R"({"at":3,"token":[1,1],"parent":[-1,-1]})"), {":2"});
  const std::string line = R"({"request":1,"prompt":"0000000000000001","drafts":[]})";
  refuses(head + line + "\n" + line + "\n", {":3", "request 1 is there twice"});
  std::filesystem::remove(file);
  expect_error(ExitCode::model_file, {"drafts.jsonl"}, [&] { read_draft_record(file, 10); });
}

TEST(Replay, DraftsWhatWasRecordedAndAsMuchAsFits) {
  const Sequence seq{.id = 1, .key = 9, .tokens = {1, 2, 3}, .num_prompt = 2};
  Sequence later = seq;
  later.tokens = {1, 2, 3, 7, 8};
  ReplayProposer proposer(record_of(seq), "f");
  EXPECT_TRUE(proposer.branches());
  const auto drafts = [&](const Sequence& of, int most, int depth) {
    const DraftRequest request{.seq = &of, .max_drafts = most, .max_depth = depth};
    Proposal out;
    proposer.propose(std::span(&request, 1), std::span(&out, 1));
    return out.draft;
  };
  EXPECT_EQ(drafts(seq, 8, 8).token, (Tokens{7, 8}));
  EXPECT_EQ(drafts(seq, 1, 8).token, (Tokens{7}));
  EXPECT_EQ(drafts(later, 8, 8).parent, (Tokens{-1, -1, 0, 2}));
  EXPECT_EQ(drafts(later, 8, 2).token, (Tokens{4, 5, 6}));
  EXPECT_EQ(drafts(later, 8, 1).token, (Tokens{4, 5}));
  EXPECT_TRUE(drafts(later, 0, 8).empty());
  Sequence elsewhere = seq;
  elsewhere.tokens.push_back(4);
  EXPECT_TRUE(drafts(elsewhere, 8, 8).empty());  // nothing was recorded behind four tokens
  Sequence unknown = seq;
  unknown.key = 10;
  EXPECT_TRUE(drafts(unknown, 8, 8).empty());
  Sequence other = seq;
  other.tokens[0] = 5;
  expect_error(ExitCode::usage, {"f:0: request 9 has another prompt", "tokenizer and chat template"},
               [&] { drafts(other, 8, 8); });
  const DraftTree skips = cut_tree({.token = {1, 2, 3, 4}, .parent = {-1, 0, 1, -1}, .score = {}}, 3, 2);
  EXPECT_EQ(skips.token, (Tokens{1, 2, 4}));
  EXPECT_EQ(skips.parent, (Tokens{-1, 0, -1}));
}

TEST(ReplayEntry, WantsAFile) {
  const ProposerEntry& entry = proposer_entry("replay");
  EXPECT_TRUE(entry.find_conflict(entry.defaults));
  EXPECT_FALSE(entry.find_conflict(std::any(ReplayOptions{.file = "x"})));
}

}  // namespace
}  // namespace paceline
