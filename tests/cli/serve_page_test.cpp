// The page at / of a server under way, in a headless Chromium: what a user types, and what the page says of it. Skipped
// where there is no browser.

#include <gtest/gtest.h>

#include "tests/cli/serve_program.h"
#include "tests/support/browser.h"

namespace paceline::test {
namespace {

using Json = nlohmann::json;

// Before the page: collects what goes wrong.
const char* const kWatchPage = R"js(
window.problems = []; window.refused = 0;
addEventListener("error", e => problems.push(String(e.message)));
addEventListener("unhandledrejection", e => problems.push(String(e.reason)));
addEventListener("securitypolicyviolation", () => ++refused);
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));
)js";

const std::string kPrompt =
    "Summarise: The old bridge was built by <b>two</b> engineers & <img src=x onerror=refused=9> in 1840.";

const std::string kDrafting = R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 2})";

class ServePage : public testing::Test {
 protected:
  void SetUp() override {
    if (chromium().empty()) GTEST_SKIP() << "no chromium in PATH";
  }

  void open(std::vector<std::string> args) {
    served.emplace(std::move(args));
    page.emplace();
    page->run_first(kWatchPage);
    page->open(served->url() + "/");
    // What the model allows is asked for, and then stands in the fields.
    ASSERT_TRUE(page->comes_true("document.title.endsWith(' – Paceline')", 30));
  }
  Json value_of(const std::string& expression) { return page->value_of(expression); }

  /// Types it, and waits for the end of the answer.
  void say(const std::string& text) {
    const Json turns = value_of("document.querySelectorAll('.turn').length");
    value_of("document.getElementById('prompt').focus()");
    page->type(text);
    page->press_enter();
    ASSERT_TRUE(
        page->comes_true("document.querySelectorAll('.turn').length === " + std::to_string(turns.get<int>() + 2) +
                             " && document.getElementById('stop').disabled",
                         30));
  }
  /// Of the last answer: [text, whether it is marked] of each token that has text.
  Json marks() {
    return value_of(
        "[...document.querySelectorAll('.turn:last-child .text > *')].map("
        "node => [node.textContent, node.tagName === 'MARK'])");
  }
  /// What the server says of the same prompt to a client of its own.
  Json flags(const std::string& path, Json body) {
    body["return_draft_flags"] = true;
    body["max_tokens"] = 256;
    body["temperature"] = 0;
    const std::string answer = served->ask("POST", path, body.dump());
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK")) << answer;
    Json shown = Json::array();
    const Json parsed = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
    for (const Json& flag : parsed["choices"][0]["draft_flags"])
      if (flag["text"] != "") shown.push_back(Json::array({flag["text"], flag["kept_draft"]}));
    return shown;
  }
  double metric(const std::string& name) {
    const std::string answer = served->ask("GET", "/metrics"), line = "\n" + name + " ";
    return std::stod(answer.substr(answer.find(line) + line.size()));
  }
  std::string text_of(const std::string& selector) {
    return value_of("document.querySelector(" + Json(selector).dump() + ").textContent");
  }

  std::optional<Served> served;
  std::optional<BrowserPage> page;
};

TEST_F(ServePage, MarksTheDraftsThatTheModelKept) {
  open({"builtin:target-7m", "--speculative-config", kDrafting});
  say(kPrompt);
  const Json first = {{"role", "user"}, {"content", kPrompt}};
  EXPECT_EQ(marks(), flags("/v1/chat/completions", {{"messages", Json::array({first})}}));
  int kept = 0, own = 0;
  std::string text;
  for (const Json& mark : marks()) {
    ++(mark[1].get<bool>() ? kept : own);
    text += mark[0];
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(own, 0);
  EXPECT_TRUE(holds(text_of(".turn:last-child .stats"), " " + std::to_string(kept) + " kept drafts"))
      << text_of(".turn:last-child .stats");
  // What was typed stands there as it was typed.
  EXPECT_EQ(text_of(".turn .text"), kPrompt);
  EXPECT_EQ(value_of("document.querySelectorAll('#log b, #log img').length"), 0);
  // The next answer knows the first.
  say("And then?");
  const Json answer = {{"role", "assistant"}, {"content", text}}, next = {{"role", "user"}, {"content", "And then?"}};
  EXPECT_EQ(marks(), flags("/v1/chat/completions", {{"messages", Json::array({first, answer, next})}}));
  value_of("document.getElementById('clear').click()");
  say(kPrompt);
  EXPECT_EQ(marks(), flags("/v1/chat/completions", {{"messages", Json::array({first})}}));
  EXPECT_EQ(value_of("problems"), Json::array());
  EXPECT_EQ(value_of("refused"), 0);
}

TEST_F(ServePage, ShowsWhatTheEngineDoes) {
  open({"builtin:target-7m", "--speculative-config", kDrafting, "--max-num-seqs", "2"});
  ASSERT_TRUE(page->comes_true("samples.length > 0", 20));
  EXPECT_EQ(text_of("#model"), "target-7m");
  EXPECT_EQ(text_of("#state"), "live");
  EXPECT_EQ(text_of("[data-gauge=acceptance] .value"), "–");
  // Work enough that no machine ends it between two looks of the page; it is cancelled once it was seen.
  const int socket = served->connected();
  const Json prompts(8, "one two one two one");
  Served::send(socket, "POST", "/v1/completions",
               Json{{"prompt", prompts}, {"n", 16}, {"max_tokens", 900}, {"ignore_eos", true}}.dump());
  EXPECT_TRUE(
      page->comes_true("samples.some(s => s.running === 2 && s.waiting > 0 && s.kv > 0 && s.speed > 0) && "
                       "samples.some(s => s.acceptance !== null)",
                       30));
  ::close(socket);
  EXPECT_TRUE(page->comes_true("samples.at(-1).running === 0 && samples.at(-1).speed === 0", 60));
  const std::string shown = text_of("[data-gauge=acceptance] .value");
  EXPECT_TRUE(shown.ends_with(" %")) << shown;
  EXPECT_LE(std::stod(shown), 100);
  EXPECT_EQ(text_of("[data-gauge=running] .value"), "0 + 0");
  EXPECT_EQ(text_of("[data-gauge=speed] .value"), "0");
  // What the page counted is what the engine did.
  EXPECT_NEAR(value_of("samples.reduce((sum, s, i) => sum + (i && s.speed * (s.at - samples[i - 1].at)), 0)"),
              metric("paceline_generation_tokens_total"), 0.01);
  for (const char* gauge : {"speed", "acceptance", "kv", "running"})
    EXPECT_NE(value_of("document.querySelector('[data-gauge=" + std::string(gauge) + "] .s0').getAttribute('d')"), "")
        << gauge;
  EXPECT_EQ(value_of("problems"), Json::array());
}

TEST_F(ServePage, AsksOnlyWhileItIsSeen) {
  open({"builtin:target-7m"});
  ASSERT_TRUE(page->comes_true("samples.length > 0", 20));
  EXPECT_EQ(text_of("[data-gauge=acceptance] .unit"), "this server drafts nothing");
  value_of(R"js(window.seen = false; window.num_fetches = 0;
    Object.defineProperty(document, "hidden", {get: () => !seen});
    const asked = fetch; window.fetch = (...what) => { ++num_fetches; return asked(...what); }; 0)js");
  EXPECT_EQ(value_of("new Promise(done => setTimeout(() => done(num_fetches), 2500))"), 0);
  value_of("seen = true; document.dispatchEvent(new Event('visibilitychange'))");
  EXPECT_TRUE(page->comes_true("num_fetches > 1", 20));
}

TEST_F(ServePage, FitsWindowsInLightAndDark) {
  open({"builtin:target-7m", "--speculative-config", kDrafting});
  say(kPrompt);
  Json backgrounds = Json::array();
  for (const bool dark : {false, true}) {
    for (const int width : {400, 1300}) {
      page->show_in(width, 900, dark);
      EXPECT_LE(value_of("document.documentElement.scrollWidth - innerWidth"), 0) << width;
    }
    backgrounds.push_back(value_of("getComputedStyle(document.body).backgroundColor"));
  }
  EXPECT_EQ(backgrounds, Json::array({"rgb(255, 255, 255)", "rgb(18, 22, 27)"}));
}

TEST_F(ServePage, ContinuesTextsOfAModelWithoutATemplate) {
  const TempDir folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    std::filesystem::create_symlink(builtin_model("target-7m") / name, folder / name);
  open({folder.path().string(), "--speculative-config", kDrafting});
  say("one two one two one two");
  EXPECT_EQ(marks(), flags("/v1/completions", {{"prompt", "one two one two one two"}}));
  EXPECT_GT(marks().size(), 0u);
  EXPECT_EQ(text_of("#h-chat"), "Completion");
}

TEST_F(ServePage, ErrorsAreShownAndNothingLeavesThePage) {
  open({"builtin:target-7m"});
  EXPECT_EQ(value_of("refused"), 0);
  value_of("document.getElementById('max-tokens').max = 5000; document.getElementById('max-tokens').value = 5000");
  say("Hello");
  EXPECT_TRUE(holds(text_of(".failure"), "max_tokens: 5000 beside a prompt")) << text_of(".failure");
  const std::string other = "'http://localhost:1/'";
  EXPECT_EQ(value_of("fetch(" + other + ").then(() => 'came', () => 'refused')"), "refused");
  value_of(
      "const script = document.createElement('script'); script.textContent = 'window.intruder = 1'; "
      "document.body.append(script)");
  EXPECT_EQ(value_of("window.intruder === undefined"), true);
  EXPECT_TRUE(page->comes_true("refused === 2", 10)) << value_of("refused");
}

}  // namespace
}  // namespace paceline::test
