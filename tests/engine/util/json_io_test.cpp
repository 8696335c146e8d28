#include "engine/util/json_io.h"

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::expect_error;

json parse(std::string_view text) { return parse_json(text, "f.json", ExitCode::usage); }

TEST(JsonIo, BuildsWhatTheLibraryBuilds) {
  const std::string text = R"( {"a": [1, -2, 2.5, "x\n", true, null, {"b": {}}], "c": [], "": 18446744073709551615} )";
  EXPECT_EQ(parse(text), json::parse(text));
  EXPECT_EQ(parse("3"), json(3));
}

TEST(JsonIo, NamesLineAndColumn) {
  expect_error(ExitCode::usage, {"f.json:2:6: invalid JSON"}, [] { parse("{\n\"a\": x}"); });
  expect_error(ExitCode::usage, {"f.json:1:5: invalid JSON"}, [] { parse("{\"a\":"); });
  expect_error(ExitCode::usage, {"f.json:1:", "invalid JSON"}, [] { parse(""); });
  expect_error(ExitCode::usage, {"f.json:1:", "invalid JSON"}, [] { parse("[NaN]"); });
  expect_error(ExitCode::usage, {"f.json:1:", "invalid JSON"}, [] { parse("[1] 2"); });
  expect_error(ExitCode::usage, {"f.json:1:", "invalid JSON"}, [] { parse("[1e400]"); });
  expect_error(ExitCode::usage, {"f.json:1:", "invalid JSON"}, [] { parse("[\"\xff\"]"); });
}

TEST(JsonIo, RefusesDuplicateKeysAtAnyDepth) {
  expect_error(ExitCode::usage, {"f.json:2:17", "duplicate key \"b\""},
               [] { parse("{\n\"a\": {\"b\": 1, \"b\": 2}}"); });
  EXPECT_EQ(parse(R"([{"b": 1}, {"b": 2}])").size(), 2u);
}

TEST(JsonIo, BoundsDepthAndSize) {
  const auto nested = [](int depth) { return std::string(size_t(depth), '[') + std::string(size_t(depth), ']'); };
  EXPECT_NO_THROW(parse(nested(64)));
  expect_error(ExitCode::usage, {"f.json:1:65", "nested deeper than 64"}, [&] { parse(nested(65)); });
  expect_error(ExitCode::usage, {"nested deeper than 64"}, [&] { parse(std::string(1'000'000, '[')); });
  expect_error(ExitCode::usage, {"4 bytes of JSON; expected at most 3"},
               [] { parse_json("1234", "f.json", ExitCode::usage, {.max_bytes = 3}); });
}

TEST(JsonIo, ARawNulDoesNotHideWhatFollows) {
  expect_error(ExitCode::usage, {"NUL"}, [] { parse(std::string_view("{}\0{", 4)); });
}

TEST(JsonIo, LiteralsForMessagesAreOneBoundedLine) {
  EXPECT_EQ(json_literal("a\n\"b\""), R"("a\n\"b\"")");
  EXPECT_LT(json_literal(std::string(5000, 'x')).size(), 120u);
  EXPECT_LT(json_literal("\xff\xfe").size(), 20u);
  EXPECT_EQ(short_dump(json{{"a", 1}}), R"({"a":1})");
}

TEST(JsonIo, AFileThatCannotBeReadHasTheCodeOfItsKind) {
  test::TempDir dir;
  const auto file = dir / "config.json";
  expect_error(ExitCode::store, {"config.json", "No such file"}, [&] { read_json_file(file, ExitCode::store); });
  expect_error(ExitCode::model_file, {"config.json", "No such file"}, [&] { read_model_config(file); });
  test::write_file(file, "{");
  expect_error(ExitCode::usage, {"config.json:1"}, [&] { read_model_config(file); });
}

TEST(JsonIo, OrderedObjectsKeepTheOrderOfTheirKeys) {
  const std::string text = R"({"z":1,"a":{"y":[{"c":1,"b":2}],"x":null},"m":"n"})";
  EXPECT_EQ(parse_ordered_json(text, "f", ExitCode::usage).dump(), text);
  expect_error(ExitCode::usage, {"f:1:11", "duplicate key \"z\""},
               [] { parse_ordered_json(R"({"z":1, "z":2})", "f", ExitCode::usage); });
  // A key may come again in another object.
  EXPECT_EQ(parse_ordered_json(R"([{"a":{"a":1}},{"a":2}])", "f", ExitCode::usage).size(), 2u);
}

}  // namespace
}  // namespace paceline
