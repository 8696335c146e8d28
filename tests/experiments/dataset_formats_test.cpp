// The forms of data sets, each with a tiny made-up file; what a bad record says; what is found without being told.

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/workload/dataset.h"
#include "kernels/error.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

const std::string kSpecBench =
    "{\"question_id\": 81, \"category\": \"writing\", \"turns\": [\"Write a line.\", \"Write another.\"]}\n"
    "{\"question_id\": 161, \"category\": \"translation\", \"turns\": [\"Translate: ja\"], \"reference\": [\"yes\"]}\n";
const std::string kMtBench =
    "{\"question_id\": 81, \"category\": \"writing\", \"turns\": [\"Write a line.\", \"Write another.\"]}\n";
const std::string kHumanEval =
    "{\"task_id\": \"HumanEval/0\", \"prompt\": \"def f(x):\\n\", \"entry_point\": \"f\", \"test\": \"\"}\n";
const std::string kGsm8k = "{\"question\": \"What is 1 + 1?\", \"answer\": \"It is 2. #### 2\"}\n";
const std::string kSquad =
    "{\"version\": \"1.1\",\n \"data\": [\n  {\"title\": \"Towers\", \"paragraphs\": [\n"
    "   {\"context\": \"The tower is old.\", \"qas\": [{\"id\": \"a\", \"question\": \"How old?\", \"answers\": []},\n"
    "    {\"id\": \"b\", \"question\": \"Where?\", \"is_impossible\": true, \"answers\": []}]}]},\n"
    "  {\"title\": \"Rivers\", \"paragraphs\": [{\"context\": \"It [runs] \\\"{south\\\".\", \"qas\": [\n"
    "    {\"id\": \"c\", \"question\": \"Which way?\"}]}]}\n ]}\n";
const std::string kShareGpt =
    "[{\"id\": \"x_0\", \"conversations\": [{\"from\": \"human\", \"value\": \"Hello\"}, {\"from\": \"gpt\", "
    "\"value\": \"Hi\"}, {\"from\": \"human\", \"value\": \"Bye\"}]},\n"
    " {\"conversations\": [{\"from\": \"system\", \"value\": \"Be brief.\"}, {\"from\": \"gpt\", \"value\": \"Yes?\"},"
    " {\"from\": \"user\", \"value\": \"Why?\"}]}]";
const std::string kJsonLines =
    "{\"text\": \"Once\", \"id\": 7, \"category\": \"tales\", \"max_tokens\": 5}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";
const std::string kCsv =
    "id,prompt,category,max_tokens\r\n"
    "1,\"Say \"\"yes\"\",\r\nthen stop\",talk,12\r\n"
    "\r\n"
    "2,plain words,,\r\n";

class DatasetFormats : public ::testing::Test {
 protected:
  fs::path write(const std::string& content, const std::string& name = "set") const {
    test::write_file(folder_ / name, content);
    return folder_ / name;
  }
  Dataset read(const std::string& content, DatasetFormat format = DatasetFormat::automatic) const {
    return read_dataset(write(content), {.format = format});
  }
  std::string error_of(const std::string& content, DatasetFormat format) const {
    try {
      read(content, format);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model_file);
      const std::string text = e.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_LT(text.size(), 900u);
      return text;
    }
    return "";
  }

  test::TempDir folder_;
};

TEST_F(DatasetFormats, AreFoundFromTheContentWithAndWithoutMarks) {
  const std::map<std::string, DatasetFormat> texts = {{kSpecBench, DatasetFormat::spec_bench},
                                                      {kMtBench, DatasetFormat::mt_bench},
                                                      {kHumanEval, DatasetFormat::humaneval},
                                                      {kGsm8k, DatasetFormat::gsm8k},
                                                      {kSquad, DatasetFormat::squad},
                                                      {kShareGpt, DatasetFormat::sharegpt},
                                                      {kJsonLines, DatasetFormat::jsonl},
                                                      {kCsv, DatasetFormat::csv},
                                                      {"{\"prompt\": \"x\"}", DatasetFormat::paceline}};
  for (const auto& [text, format] : texts) {
    const Dataset plain = read(text);
    EXPECT_EQ(name_of(plain.format), name_of(format)) << text;
    std::string dos = "\xEF\xBB\xBF\r\n";
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n' && (i == 0 || text[i - 1] != '\r')) dos += '\r';
      dos += text[i];
    }
    const Dataset marked = read(dos);
    EXPECT_EQ(name_of(marked.format), name_of(format)) << text;
    ASSERT_EQ(marked.prompts.size(), plain.prompts.size());
    EXPECT_EQ(marked.prompts.back().text, plain.prompts.back().text);
  }
  std::string one_line = kSquad;
  std::erase(one_line, '\n');
  EXPECT_EQ(read(one_line).format, DatasetFormat::squad);
}

TEST_F(DatasetFormats, SpecBenchCountsTheCategoriesOfMtBenchAsOneTask) {
  const Dataset set = read(kSpecBench);
  ASSERT_EQ(set.prompts.size(), 2u);
  EXPECT_EQ(set.prompts[0].id, "81");
  EXPECT_EQ(set.prompts[0].category, "mt_bench");
  ASSERT_EQ(set.prompts[0].messages.size(), 1u) << "the first turn only";
  EXPECT_EQ(set.prompts[0].messages[0].content, "Write a line.");
  EXPECT_EQ(set.prompts[1].category, "translation");
  EXPECT_EQ(read(kMtBench).prompts[0].category, "writing");
}

TEST_F(DatasetFormats, CodeIsGoneOnWithAndQuestionsAreAsked) {
  const Prompt code = read(kHumanEval).prompts.at(0);
  EXPECT_FALSE(code.is_chat());
  EXPECT_EQ(code.id, "HumanEval/0");
  EXPECT_EQ(code.text, "def f(x):\n");
  const Prompt sum = read(kGsm8k).prompts.at(0);
  ASSERT_TRUE(sum.is_chat());
  EXPECT_EQ(sum.messages[0].content, "What is 1 + 1?");
  EXPECT_EQ(sum.id, "set-1");
}

TEST_F(DatasetFormats, SquadGivesAPromptForEachQuestion) {
  const Dataset set = read(kSquad);
  ASSERT_EQ(set.prompts.size(), 3u);
  EXPECT_EQ(set.prompts[1].id, "b");
  EXPECT_EQ(set.prompts[1].messages.at(0).content, "Where?\n\nPassage:\nThe tower is old.");
  EXPECT_EQ(set.prompts[2].category, "Rivers");
  EXPECT_EQ(set.prompts[2].messages.at(0).content, "Which way?\n\nPassage:\nIt [runs] \"{south\".");
}

TEST_F(DatasetFormats, ShareGptGivesTheFirstUserTurn) {
  const Dataset set = read(kShareGpt);
  ASSERT_EQ(set.prompts.size(), 2u);
  EXPECT_EQ(set.prompts[0].id, "x_0");
  ASSERT_EQ(set.prompts[0].messages.size(), 1u);
  EXPECT_EQ(set.prompts[0].messages[0].content, "Hello");
  ASSERT_EQ(set.prompts[1].messages.size(), 2u);
  EXPECT_EQ(set.prompts[1].messages[0].role, "system");
  EXPECT_EQ(set.prompts[1].messages[1].content, "Why?");
}

TEST_F(DatasetFormats, JsonLinesAndCsvHoldTheUsersOwnPrompts) {
  const Dataset lines = read(kJsonLines);
  ASSERT_EQ(lines.prompts.size(), 2u);
  EXPECT_EQ(lines.prompts[0].text, "Once");
  EXPECT_EQ(lines.prompts[0].id, "7");
  EXPECT_EQ(lines.prompts[0].category, "tales");
  EXPECT_EQ(lines.prompts[0].max_tokens, 5);
  ASSERT_EQ(lines.prompts[1].messages.size(), 1u) << "a recorded answer is left out";
  EXPECT_FALSE(lines.prompts[1].max_tokens);

  const Dataset table = read(kCsv);
  ASSERT_EQ(table.prompts.size(), 2u);
  EXPECT_EQ(table.prompts[0].text, "Say \"yes\",\r\nthen stop");
  EXPECT_EQ(table.prompts[0].category, "talk");
  EXPECT_EQ(table.prompts[0].max_tokens, 12);
  EXPECT_EQ(table.prompts[1].id, "2");
  EXPECT_EQ(table.prompts[1].text, "plain words");
  EXPECT_FALSE(table.prompts[1].max_tokens);
  EXPECT_EQ(read("prompt\n\"a\"").prompts.at(0).text, "a");
}

TEST_F(DatasetFormats, ErrorsNameFileLineAndField) {
  struct Case {
    DatasetFormat format;
    std::string text, expected;
  };
  const std::vector<Case> cases = {
      {DatasetFormat::spec_bench, kSpecBench + "{\"question_id\": 1, \"category\": \"qa\"}\n",
       "set:3: field \"turns\" is missing: expected an array"},
      {DatasetFormat::mt_bench, "{\"question_id\": 1, \"category\": \"qa\", \"turns\": [3]}",
       "set:1: field \"turns[0]\" is of type number"},
      {DatasetFormat::mt_bench, "{\"category\": \"qa\", \"turns\": [\"x\"]}",
       "set:1: field \"question_id\" is missing"},
      {DatasetFormat::jsonl, "{\"promt\": \"x\"}",
       "set:1: field \"messages\" is missing: expected \"messages\" or \"prompt\" or \"text\"; \"promt\" is none of "
       "them "
       "(did you mean \"prompt\"?)"},
      {DatasetFormat::automatic, "{\"prompt\": \"x\"}\n{\"text\": \"x\"}",
       "set:2: field \"messages\" is missing: expected \"messages\" or \"prompt\"; workload.format=jsonl reads "
       "\"text\", "
       "too"},
      {DatasetFormat::humaneval, "{\"prompt\": \"x\"}", "set:1: field \"task_id\" is missing: expected a string"},
      {DatasetFormat::gsm8k, kGsm8k + "{\"question\": \"\", \"answer\": \"\"}", "set:2: field \"question\" is empty"},
      {DatasetFormat::squad, "{\"version\": \"1.1\"}", "set:1: field \"data\" is missing"},
      {DatasetFormat::squad, "{\"data\": [\n{\"title\": \"t\",\n \"paragraphs\": [{\"context\": \"c\"}]}]}",
       "set:2: field \"data[0].paragraphs[0].qas\" is missing"},
      {DatasetFormat::squad,
       "{\"data\": [\n{\"paragraphs\": [{\"context\": \"c\", \"qas\": [{\"id\": \"a\", \"question\": 3}]}]}]}",
       "set:2: field \"data[0].paragraphs[0].qas[0].question\" is of type number"},
      {DatasetFormat::squad, "{\"data\": [\n{\"paragraphs\":\n [tru]}]}", "set:3: data[0]: column 6: not valid JSON"},
      {DatasetFormat::squad, kSquad.substr(0, kSquad.size() - 20), "the file ends inside"},
      {DatasetFormat::squad, kSquad + "x", "set:9: text behind the end of the document"},
      {DatasetFormat::sharegpt, "[\n{\"conversations\": []}]", "set:2: record [0]: field \"conversations\" is empty"},
      {DatasetFormat::sharegpt, "[{\"conversations\": [{\"from\": \"gpt\", \"value\": \"x\"}]}]",
       "set:1: record [0]: field \"conversations\" has no turn of a user: expected one from \"human\"; "
       "workload.skip_bad leaves bad records out"},
      {DatasetFormat::sharegpt,
       "[{\"conversations\": [{\"from\": \"human\", \"value\": \"x\"}]}, {\"id\": \"x_7\", \"conversations\": 3}]",
       "set:1: record [1], id \"x_7\": field \"conversations\" is of type number"},
      {DatasetFormat::sharegpt, "[{\"conversations\": [{\"from\": \"human\", \"value\": \"x\"}]}, 3]",
       "set:1: record [1]: is of type number"},
      {DatasetFormat::squad, "{\"data\": [3]}", "set:1: data[0]: is of type number"},
      {DatasetFormat::sharegpt, "[{\"conversations\": [{\"from\": \"dog\", \"value\": \"x\"}]}]",
       "set:1: record [0]: field \"conversations[0].from\" is \"dog\": expected human, gpt or system"},
      {DatasetFormat::sharegpt, "{}", "set:1: expected '[' at the start of a ShareGPT document, found '{'"},
      {DatasetFormat::jsonl, "{\"text\": \"x\", \"max_tokens\": 0}",
       "set:1: field \"max_tokens\" is 0: expected an integer from 1 to 16777216"},
      {DatasetFormat::jsonl, "{\"id\": 3}", "expected \"messages\" or \"prompt\" or \"text\""},
      {DatasetFormat::jsonl, "{\"text\": \"x\", \"prompt\": \"y\"}", "set:1: has both \"text\" and \"prompt\""},
      {DatasetFormat::jsonl, "{\"text\": " + std::string(100, '[') + std::string(100, ']') + "}",
       "set:1: nested more than 64 deep"},
      {DatasetFormat::csv, "id,text\n1,a,b\n", "set:2: has 3 fields, the header has 2"},
      {DatasetFormat::csv, "id,text\n1,\"a\nb\"\n2,say \"yes\"\n", "set:4: field 2 holds a quote"},
      {DatasetFormat::csv, "text\n\"a\" b\n", "set:2: field 1 goes on behind its closing quote"},
      {DatasetFormat::csv, "text\nx\n\"a\nb\n", "set:3: field 1 begins with a quote that is never closed"},
      {DatasetFormat::csv, "id,txt\n1,a\n", "set:1: the header has no column \"prompt\""},
      {DatasetFormat::csv, "text,prompt\n1,a\n", "set:1: the header has two columns"},
      {DatasetFormat::csv, "text,max_tokens\na,many\n", "set:2: field \"max_tokens\" is of type string"},
      {DatasetFormat::csv, "text\n\xFF\n", "set:2: field \"prompt\" is not UTF-8"},
      {DatasetFormat::csv, "text\n", "holds no prompt: expected at least one record of format csv"},
      {DatasetFormat::automatic, "\n \n", "set: is empty"},
      {DatasetFormat::automatic, "{\"a\": 1, \"b\": 2}\n",
       "set:1: the form is not known: found \"a\", \"b\"; expected"},
      {DatasetFormat::automatic, "[{\"prompt\": \"a\"}]",
       "set:1: found a JSON array, expected one object a line (JSON Lines)"},
      {DatasetFormat::automatic, "words\n", "set:1: the form is not known; expected JSON Lines"},
      {DatasetFormat::automatic, "\x1f\x8b rest", "set: is a gzip file: expected JSON Lines, JSON or CSV; unpack"},
  };
  for (const Case& c : cases) {
    const std::string found = error_of(c.text, c.format);
    EXPECT_NE(found.find(c.expected), std::string::npos) << c.expected << "\n gave: " << found;
  }
}

TEST_F(DatasetFormats, RecordsOverTheLimitAreRefusedInEveryForm) {
  const std::string huge(static_cast<size_t>(kMaxDatasetLineBytes) + 1, 'x');
  const std::string limit = fmt::format("{} bytes", kMaxDatasetLineBytes);
  const std::string short_talk = R"({"conversations": [{"from": "human", "value": "a"}]})";
  for (const auto& [format, text] : std::vector<std::pair<DatasetFormat, std::string>>{
           {DatasetFormat::gsm8k, fmt::format("{}{{\"question\": \"{}\", \"answer\": \"\"}}\n", kGsm8k, huge)},
           {DatasetFormat::sharegpt, fmt::format("[{},\n{{\"id\": \"{}\"}}]", short_talk, huge)},
           {DatasetFormat::csv, fmt::format("prompt\n\"{}\"\n", huge)}}) {
    const std::string found = error_of(text, format);
    EXPECT_NE(found.find(limit), std::string::npos) << found.substr(0, 300);
    EXPECT_NE(found.find(":2: "), std::string::npos) << found.substr(0, 300);
  }
}

TEST_F(DatasetFormats, ReadThePublishedFiles) {
  const fs::path prompts = test::shared_dir() / "prompts";
  if (!fs::exists(prompts)) GTEST_SKIP() << "shared prompts are missing";
  const auto read_shared = [&](const char* name) { return read_dataset(prompts / name, {}); };
  const Dataset spec_bench = read_shared("spec_bench.jsonl");
  EXPECT_EQ(spec_bench.format, DatasetFormat::spec_bench);
  EXPECT_EQ(spec_bench.prompts.size(), 480u);
  EXPECT_EQ(filter_prompts(spec_bench.prompts, {"mt_bench"}, {}).size(), 80u);
  EXPECT_EQ(read_shared("mt_bench.jsonl").format, DatasetFormat::mt_bench);
  EXPECT_EQ(read_shared("gsm8k_test.jsonl").prompts.size(), 1319u);
  EXPECT_EQ(read_shared("squad_reading_qa.json").format, DatasetFormat::squad);
  EXPECT_EQ(read_shared("xquad.zh.json").format, DatasetFormat::squad);
  EXPECT_THROW(read_shared("HumanEval.jsonl.gz"), Error);
}

TEST_F(DatasetFormats, BadRecordsAreCountedWhenAskedFor) {
  const std::map<std::string, DatasetFormat> texts = {
      {"{\"prompt\": \"a\"}\n{\"prompt\": 5}\n{\"prompt\"\n{\"prompt\": \"b\"}\n", DatasetFormat::paceline},
      {"[{\"conversations\": []},\n{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]},\n{\"conversations\""
       ": 3},\n{\"conversations\": [{\"from\": \"human\", \"value\": \"b\"}]}]",
       DatasetFormat::sharegpt},
      {"prompt,id\na,1\nb\n\"c\" d,3\ne,5\n", DatasetFormat::csv},
      {"{\"data\": [3, {\"paragraphs\": [{\"context\": \"c\", \"qas\": [{\"id\": \"1\", \"question\": \"q\"}, 7, "
       "{\"id\": \"2\", \"question\": \"r\"}]}]}]}",
       DatasetFormat::squad}};
  for (const auto& [text, format] : texts) {
    const fs::path file = write(text);
    EXPECT_THROW(read_dataset(file, {.format = format}), Error) << text;
    const Dataset set = read_dataset(file, {.format = format, .bad_records = BadRecords::skip});
    EXPECT_EQ(set.prompts.size(), 2u) << text;
    EXPECT_EQ(set.num_bad, 2) << text;
    EXPECT_NE(set.first_bad.find("set:"), std::string::npos) << set.first_bad;
    EXPECT_EQ(set.prompts[1].index, 1);
  }
  try {
    read_dataset(write("{\"prompt\": 5}\n{\"prompt\": 6}\n"),
                 {.format = DatasetFormat::paceline, .bad_records = BadRecords::skip});
    FAIL() << "a set without a good record is an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("all 2 records are bad as paceline; the first: "), std::string::npos);
  }
  EXPECT_THROW(read_dataset(write("prompt\n\"a\n"), {.bad_records = BadRecords::skip}), Error)
      << "where a record ends is not known";
}

TEST_F(DatasetFormats, AMissingSetSaysWhereItCanBeGot) {
  const auto message = [&](const std::string& name, DatasetFormat format) {
    try {
      read_dataset(folder_ / name, {.format = format});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model_file);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(message("q.jsonl", DatasetFormat::spec_bench).find("github.com/hemingkx/Spec-Bench"), std::string::npos);
  EXPECT_NE(message("Spec-Bench.jsonl", DatasetFormat::automatic).find("hemingkx"), std::string::npos);
  EXPECT_NE(message("q.jsonl", DatasetFormat::humaneval).find("openai/human-eval"), std::string::npos);
  // under the names of the published files
  for (const auto& [name, home] : std::vector<std::pair<std::string, std::string>>{
           {"dev-v1.1.json", "SQuAD-explorer"},
           {"train-v1.1.json", "SQuAD-explorer"},
           {"train-v2.0.json", "SQuAD-explorer"},
           {"human_eval.jsonl", "openai/human-eval"},
           {"HumanEval.jsonl", "openai/human-eval"},
           {"test.jsonl", "openai/grade-school-math"},
           {"ShareGPT_V3_unfiltered_cleaned_split.json", "anon8231489123"},
           {"mt_bench/question.jsonl", "get MT-bench: github.com/lm-sys/FastChat"},
           {"question.jsonl", "get Spec-Bench: "},
           {"question.jsonl", ", or MT-bench: github.com/lm-sys/FastChat"}})
    EXPECT_NE(message(name, DatasetFormat::automatic).find(home), std::string::npos) << name;
  EXPECT_EQ(message("test.jsonl", DatasetFormat::paceline).find("github"), std::string::npos);
  const std::string plain = message("q.jsonl", DatasetFormat::automatic);
  EXPECT_NE(plain.find("q.jsonl: dataset file not found: check workload.dataset"), std::string::npos);
  EXPECT_EQ(plain.find("github"), std::string::npos);
  const std::string built_in = message("reading_qa", DatasetFormat::automatic);
  EXPECT_NE(built_in.find("not found (did you mean \"builtin:reading_qa\"?): check"), std::string::npos) << built_in;
}

TEST(FilterPrompts, KeepsCategoriesAndShortOnes) {
  std::vector<Prompt> prompts;
  for (const char* const category : {"qa", "math", "qa", "rag"})
    prompts.push_back(
        {.category = category, .index = int64_t(prompts.size()), .text = std::string(3 * prompts.size() + 1, 'x')});
  EXPECT_EQ(filter_prompts(prompts, {}, {}).size(), 4u);
  const auto qa = filter_prompts(prompts, {"qa"}, {});
  ASSERT_EQ(qa.size(), 2u);
  EXPECT_EQ(qa[1].index, 2) << "the place in the file stays";
  EXPECT_EQ(filter_prompts(prompts, {"qa", "rag"}, 7).size(), 2u);
  test::expect_error(ExitCode::usage, {"workload.max_prompt_chars 0: all prompts of the data set are longer"},
                     [&] { filter_prompts(prompts, {}, 0); });
  test::expect_error(ExitCode::usage, {"no category \"mat\" (did you mean \"math\"?): it has math, qa, rag"},
                     [&] { filter_prompts(prompts, {"mat"}, {}); });
  test::expect_error(ExitCode::usage, {"no category \"code\": it has math, qa, rag"},
                     [&] { filter_prompts(prompts, {"code"}, {}); });
  for (Prompt& prompt : prompts) prompt.category.clear();
  test::expect_error(ExitCode::usage, {"no category \"qa\": it has none"},
                     [&] { filter_prompts(prompts, {"qa"}, {}); });
}

}  // namespace
}  // namespace paceline
