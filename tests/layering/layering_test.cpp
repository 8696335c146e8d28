// The house's rules that a reader of includes can check: rows, devices, ISA files, file sizes, types that are seen.

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "speculative/proposer_entry.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLines = 600;
constexpr int kMostFiles = 30;  // of a folder of engine/ or experiments/

bool starts_with(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }
bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// The row of a file, bottom first. A file includes only its own row or an earlier one; nothing: no row is known for
/// it.
enum Row {
  kKernels,
  kServices,
  kRequests,
  kModel,
  kWeights,
  kTransformer,
  kDecisions,
  kSpeculative,
  kEngine,
  kSelfTest,
  kServe,
  kExperiments
};

std::optional<Row> row_of(const std::string& path) {
  static const std::vector<std::pair<const char*, Row>> kRows = {{"kernels/", kKernels},
                                                                 {"engine/util/", kServices},
                                                                 {"engine/text/", kServices},
                                                                 {"engine/jinja/", kServices},
                                                                 {"engine/tokenizer/", kServices},
                                                                 {"engine/comm/", kServices},
                                                                 {"engine/cache/", kRequests},
                                                                 {"engine/grammar/", kRequests},
                                                                 {"engine/sequence.", kRequests},
                                                                 {"engine/batch.", kRequests},
                                                                 {"engine/batch_rows.", kRequests},
                                                                 {"engine/draft_tree.", kRequests},
                                                                 {"engine/sampling.", kRequests},
                                                                 {"engine/sampling_plan.", kRequests},
                                                                 {"engine/token_logprobs.", kRequests},
                                                                 {"engine/request_limits.", kRequests},
                                                                 {"engine/model/", kModel},
                                                                 {"engine/weights/", kWeights},
                                                                 {"engine/transformer/", kTransformer},
                                                                 {"engine/speculation.", kDecisions},
                                                                 {"engine/scheduler.", kDecisions},
                                                                 {"engine/metrics.", kDecisions},
                                                                 {"engine/batch_builder.", kDecisions},
                                                                 {"speculative/selftest/", kSelfTest},
                                                                 {"speculative/", kSpeculative},
                                                                 {"engine/engine.", kEngine},
                                                                 {"engine/engine_loop.", kEngine},
                                                                 {"engine/serve/", kServe},
                                                                 {"experiments/", kExperiments}};
  for (const auto& [prefix, row] : kRows) {
    if (starts_with(path, prefix)) return row;
  }
  return std::nullopt;
}

/// The folders of experiments/, bottom first: each includes its own and those before it. main.cpp is on top.
std::optional<size_t> experiments_row_of(const std::string& path) {
  static const std::vector<std::string> kFolders = {"config", "workload", "client", "results",  "analysis", "report",
                                                    "ui",     "run",      "doctor", "commands", "bench"};
  for (size_t i = 0; i < kFolders.size(); ++i) {
    if (starts_with(path, "experiments/" + kFolders[i] + "/")) return i;
  }
  return starts_with(path, "experiments/") ? std::optional(kFolders.size()) : std::nullopt;
}

bool may_include(Row from, Row to) {
  if (from == kEngine && to == kSpeculative) return false;  // the engine knows the seams, not what fills them
  return to <= from;
}

struct Source {
  std::string path;  // from the project's root
  std::string text;
};

struct Include {
  std::string name;
  bool quoted = false;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kInclude(R"(^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">])");
  std::vector<Include> found;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, kInclude)) found.push_back({match[2], match[1] == "\""});
  }
  return found;
}

/// Of each file, the quoted ones.
using IncludeNames = std::map<std::string, std::vector<std::string>>;

IncludeNames quoted_includes(const std::vector<Source>& sources) {
  IncludeNames names;
  for (const Source& source : sources)
    for (const Include& include : includes_of(source.text))
      if (include.quoted) names[source.path].push_back(include.name);
  return names;
}

/// The file itself and all that it includes, directly or not.
std::set<std::string> seen_from(const std::string& path, const IncludeNames& includes) {
  std::vector<std::string> open{path};
  std::set<std::string> seen{path};
  while (!open.empty()) {
    const auto names = includes.find(open.back());
    open.pop_back();
    if (names == includes.end()) continue;
    for (const std::string& name : names->second)
      if (seen.insert(name).second) open.push_back(name);
  }
  return seen;
}

bool is_isa_file(const std::string& path) {
  if (!starts_with(path, "kernels/cpu/")) return false;
  return ends_with(path, "_avx2.cpp") || ends_with(path, "_avx512.cpp") || ends_with(path, ".inl") ||
         starts_with(path, "kernels/cpu/simd_");
}

bool may_name_devices(const std::string& path) {
  return starts_with(path, "kernels/cuda/") || starts_with(path, "engine/comm/nccl_");
}

/// Where a proposer may be compared with a word: in another program's flags, in a record that another program may have
/// written, and by a benchmark of that very proposer.
bool may_ask_for_proposers(const std::string& path) {
  return !starts_with(path, "experiments/") || starts_with(path, "experiments/bench/") ||
         starts_with(path, "experiments/config/vllm_") || path == "experiments/results/results.h";
}

/// What a ratio shows is concluded once; whoever says it decides nothing.
bool concludes(const Source& source) {
  static const std::regex kJudges(R"(\b(outcome_of|judged_among)\()");
  return !starts_with(source.path, "experiments/analysis/claims/") && std::regex_search(source.text, kJudges);
}

/// `== "ngram"`, `!= "none"`: of any proposer on the list.
const std::regex& proposer_question() {
  static const std::string kNames = fmt::format("{}", fmt::join(proposer_names(ProposerNames::all), "|"));
  static const std::regex kQuestion(fmt::format("[=!]= *\"({0})\"|\"({0})\" *[=!]=", kNames));
  return kQuestion;
}

/// One line per broken rule.
std::vector<std::string> problems(const std::vector<Source>& sources) {
  // Inline functions of these would be compiled for an ISA and may be the copy that the linker keeps.
  static const std::set<std::string> kLightHeaders = {"immintrin.h", "cstdint", "cstddef",
                                                      "cstring",     "limits",  "type_traits"};
  static const std::regex kDeviceNames(
      R"(\b(cuda[A-Z]\w*|cublas\w*|nccl[A-Z]\w*|cu[A-Z]\w*)\s*\(|<(cuda|cublas|nccl)[^>]*>)");
  std::map<std::string, const Source*> by_path;
  for (const Source& source : sources) by_path[source.path] = &source;
  const IncludeNames includes = quoted_includes(sources);
  std::vector<std::string> found;
  std::map<std::string, int> files_in;
  for (const Source& source : sources)
    if (starts_with(source.path, "engine/") || starts_with(source.path, "experiments/"))
      ++files_in[fs::path(source.path).parent_path()];
  for (const auto& [folder, count] : files_in)
    if (count > kMostFiles)
      found.push_back(fmt::format("{}: {} files, at most {}: part it by ideas", folder, count, kMostFiles));
  for (const Source& source : sources) {
    const auto row = row_of(source.path);
    if (!row) {
      found.push_back(source.path + ": no row of the house holds this file");
      continue;
    }
    if (std::count(source.text.begin(), source.text.end(), '\n') > kMaxLines)
      found.push_back(source.path + ": more than 600 lines");
    if (!may_name_devices(source.path) && std::regex_search(source.text, kDeviceNames))
      found.push_back(source.path + ": names CUDA or NCCL");
    if (!may_ask_for_proposers(source.path) && std::regex_search(source.text, proposer_question()))
      found.push_back(source.path + ": asks for a proposer by name; its entry knows (speculative/proposer_entry.h)");
    if (concludes(source)) found.push_back(source.path + ": judges a ratio; claims do (experiments/analysis/claims/)");
    for (const Include& include : includes_of(source.text)) {
      if (!include.quoted) continue;
      const auto to = row_of(include.name);
      if (!to)
        found.push_back(source.path + " includes " + include.name +
                        ", which is in no row (write includes from the project's root)");
      else if (!may_include(*row, *to) || experiments_row_of(source.path) < experiments_row_of(include.name))
        found.push_back(source.path + " includes " + include.name + " of a later row");
    }
    if (!is_isa_file(source.path)) continue;
    for (const std::string& path : seen_from(source.path, includes)) {
      const auto file = by_path.find(path);
      if (file == by_path.end()) continue;
      for (const Include& include : includes_of(file->second->text))
        if (!include.quoted && !kLightHeaders.contains(include.name))
          found.push_back(source.path + " sees <" + include.name + "> through " + path);
    }
  }
  return found;
}

std::vector<Source> read_tree(const std::vector<std::string>& folders) {
  const fs::path root = source_dir();
  std::vector<Source> sources;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      static const std::set<std::string> kEndings = {".h", ".cpp", ".inl", ".cu", ".cuh"};
      if (!entry.is_regular_file() || !kEndings.contains(entry.path().extension().string())) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      sources.push_back({fs::relative(entry.path(), root).string(), {std::istreambuf_iterator<char>(in), {}}});
    }
  }
  return sources;
}

TEST(Layering, TheTreeKeepsTheRules) {
  const auto sources = read_tree({"kernels", "engine", "speculative", "experiments"});
  EXPECT_GT(sources.size(), 100u);
  size_t num_includes = 0, num_isa = 0;
  for (const Source& source : sources) {
    num_includes += includes_of(source.text).size();
    num_isa += is_isa_file(source.path);
  }
  EXPECT_GT(num_includes, 300u);
  EXPECT_GE(num_isa, 7u);
  for (const std::string& problem : problems(sources)) ADD_FAILURE() << problem;
}

/// Without comments and quoted text. By hand: std::regex calls itself for each character of a long text.
std::string code_of(const std::string& text) {
  std::string code;
  for (size_t at = 0; at < text.size();) {
    const auto behind = [&](const std::string& end, size_t from) {
      const size_t found = text.find(end, from);
      return found == std::string::npos ? text.size() : found + end.size();
    };
    const char c = text[at];
    if (text.compare(at, 2, "//") == 0) {
      at = behind("\n", at) - 1;
    } else if (text.compare(at, 2, "/*") == 0) {
      at = behind("*/", at + 2);
    } else if (text.compare(at, 2, "R\"") == 0) {
      const size_t open = text.find('(', at);
      at = behind(")" + text.substr(at + 2, open - at - 2) + "\"", open);
    } else if (c == '"' || (c == '\'' && (at == 0 || !std::isalnum(uint8_t(text[at - 1]))))) {  // no 1'000
      for (++at; at < text.size() && text[at] != c && text[at] != '\n'; ++at) at += text[at] == '\\';
      ++at;
    } else {
      code += c;
      ++at;
      continue;
    }
    code += ' ';
  }
  return code;
}

/// What a file names; what it declares in any way, which a name may mean; and what it declares outside of others.
struct Names {
  std::set<std::string> named, known, declared;
};

Names types_of(const std::string& text) {
  static const std::regex kDeclared(
      R"((^|\n)?([ \t]*)(?:class|struct|enum|enum class|using|typename) +(?:alignas\([^)]*\) +)?([A-Z]\w+)( *(?:final *)?(?::[^;{}]*)?[{=])?)");
  static const std::regex kNamed(R"([.>]?\b[A-Z]\w+)");
  const std::string code = code_of(text);
  Names types;
  for (std::sregex_iterator at(code.begin(), code.end(), kNamed), end; at != end; ++at)
    if (const std::string name = at->str(); name[0] != '.' && name[0] != '>') types.named.insert(name);
  for (std::sregex_iterator at(code.begin(), code.end(), kDeclared), end; at != end; ++at) {
    types.known.insert((*at)[3]);
    const bool is_outside = (at->position() == 0 || (*at)[1].length() > 0) && (*at)[2].length() == 0;
    if (is_outside && (*at)[4].matched) types.declared.insert((*at)[3]);
  }
  return types;
}

/// Functions that it calls without an object or a scope.
Names functions_of(const std::string& text) {
  static const std::regex kCalled(R"(([\w.>:~]?)\b([a-z_]\w*)\()");
  static const std::regex kGiven(R"((\w+[>\]*&]*|[>\]*&]+)[ \n]+[*&]*([a-z_]\w*)\()");
  static const std::regex kVariable(R"(\b([a-z_]\w*) *[={;,)])");
  static const std::set<std::string> kNoTypes = {"return", "throw", "else", "case", "new", "and", "or", "not"};
  const std::string code = code_of(text);
  Names functions;
  for (std::sregex_iterator at(code.begin(), code.end(), kCalled), end; at != end; ++at)
    if ((*at)[1].length() == 0) functions.named.insert((*at)[2]);
  for (std::sregex_iterator at(code.begin(), code.end(), kGiven), end; at != end; ++at) {
    if (kNoTypes.contains((*at)[1])) continue;
    functions.known.insert((*at)[2]);
    const size_t name = size_t(at->position(2)), line = code.rfind('\n', name) + 1;
    const std::string before = code.substr(line, name - line);
    if (std::isalpha(uint8_t(code[line])) && before.find_first_of("(=") == std::string::npos)
      functions.declared.insert((*at)[2]);
  }
  for (std::sregex_iterator at(code.begin(), code.end(), kVariable), end; at != end; ++at)
    functions.known.insert((*at)[1]);
  return functions;
}

/// One line for each name of a file whose one header it does not see. Builds of many files at once hide these.
std::vector<std::string> unseen(const std::vector<Source>& sources, Names (*names_of)(const std::string& text)) {
  const IncludeNames includes = quoted_includes(sources);
  std::map<std::string, Names> names;
  std::map<std::string, std::vector<std::string>> headers;
  for (const Source& source : sources) {
    names[source.path] = names_of(source.text);
    if (!ends_with(source.path, ".h")) continue;
    for (const std::string& name : names[source.path].declared) headers[name].push_back(source.path);
  }
  std::vector<std::string> found;
  for (const Source& source : sources) {
    if (!ends_with(source.path, ".h") && !ends_with(source.path, ".cpp")) continue;  // others are parts of a file
    std::set<std::string> known;
    for (const std::string& path : seen_from(source.path, includes))
      known.insert(names[path].known.begin(), names[path].known.end());
    for (const std::string& name : names[source.path].named) {
      const auto declared = headers.find(name);
      if (!known.contains(name) && declared != headers.end() && declared->second.size() == 1)
        found.push_back(fmt::format("{} names {} and does not see {}", source.path, name, declared->second[0]));
    }
  }
  return found;
}

TEST(Layering, FilesSeeTheFunctionsThatTheyCall) {
  for (const std::string& problem :
       unseen(read_tree({"kernels", "engine", "speculative", "experiments"}), functions_of))
    ADD_FAILURE() << problem;
}

TEST(Layering, FunctionsThatAreNotSeenAreFound) {
  const std::vector<Source> sources = {{"engine/a.h", "int twice(int x);\nstruct A {\n  int half(int x);\n};\n"},
                                       {"engine/seen.cpp", "#include \"engine/a.h\"\nint y = twice(1);\n"},
                                       {"engine/own.cpp", "int twice(int x) { return x; }\nint y = twice(1);\n"},
                                       {"engine/local.cpp", "void f() {\n  const auto twice = [] {};\n  twice();\n}\n"},
                                       {"engine/member.cpp", "int y = a.twice(1) + b->twice(2) + other::twice(3);\n"},
                                       {"engine/none.cpp", "int f() {\n  int y = twice(half(1));\n  return y;\n}\n"}};
  EXPECT_EQ(unseen(sources, functions_of),
            (std::vector<std::string>{"engine/none.cpp names twice and does not see engine/a.h"}));
}

TEST(Layering, FilesSeeTheTypesThatTheyName) {
  const auto sources = read_tree({"kernels", "engine", "speculative", "experiments"});
  for (const std::string& problem : unseen(sources, types_of)) ADD_FAILURE() << problem;
}

TEST(Layering, TypesThatAreNotSeenAreFound) {
  const std::vector<Source> sources = {
      {"engine/a.h", "enum class Kind { one };\nstruct Batch {\n  struct Row {};\n};\n"},
      {"engine/b.h", "#include \"engine/a.h\"\n"},
      {"engine/through.cpp", "#include \"engine/b.h\"\nBatch batch;\n"},
      {"engine/forward.cpp", "struct Batch;\nvoid take(const Batch& batch);\n"},
      {"engine/prose.cpp", "// Batch\nconst char* text = \"Batch\";\n"},
      {"engine/member.cpp", "auto x = y.Batch + z->Kind;\n"},
      {"engine/none.cpp", "Batch batch;\nKind kind;\nRow row;\n"}};
  EXPECT_EQ(unseen(sources, types_of),
            (std::vector<std::string>{"engine/none.cpp names Batch and does not see engine/a.h",
                                      "engine/none.cpp names Kind and does not see engine/a.h"}));
}

TEST(Layering, TestFilesAreShortToo) {
  for (const Source& source : read_tree({"tests"}))
    EXPECT_LE(std::count(source.text.begin(), source.text.end(), '\n'), kMaxLines) << source.path;
}

TEST(Layering, PlantedEdgesAreFound) {
  const std::vector<std::pair<Source, std::string>> planted = {
      {{"kernels/error.h", "#include \"engine/batch.h\"\n"}, "kernels/error.h includes engine/batch.h"},
      {{"engine/comm/x.h", "  #  include \"engine/cache/block_pool.h\"\n"}, "includes engine/cache/block_pool.h"},
      {{"engine/cache/x.cpp", "#include \"engine/transformer/model.h\"\n"}, "includes engine/transformer/model.h"},
      {{"engine/weights/x.cpp", "#include \"engine/transformer/model.h\"\n"}, "includes engine/transformer/model.h"},
      {{"engine/model/x.cpp", "#include \"engine/scheduler.h\"\n"}, "includes engine/scheduler.h"},
      {{"engine/scheduler.h", "#include \"engine/engine.h\"\n"}, "includes engine/engine.h"},
      {{"engine/engine.cpp", "#include \"speculative/proposer_entry.h\"\n"}, "includes speculative/proposer_entry.h"},
      {{"speculative/x.cpp", "#include \"engine/engine.h\"\n"}, "includes engine/engine.h"},
      {{"speculative/x.cpp", "#include \"experiments/config/config.h\"\n"}, "includes experiments/config/config.h"},
      {{"engine/comm/x.cpp", "#include \"rank_team.h\"\n"}, "rank_team.h, which is in no row"},
      {{"experiments/results/x.cpp", "#include \"experiments/report/html/html.h\"\n"},
       "includes experiments/report/html/html.h"},
      {{"experiments/x.cpp", "#include \"tests/support/fake_model.h\"\n"}, "which is in no row"},
      {{"engine/helpers.h", ""}, "engine/helpers.h: no row"},
      {{"engine/model/x.cpp", "#include <cuda_runtime.h>\n"}, "names CUDA"},
      {{"engine/comm/x.cpp", "ncclAllReduce(a, b);\n"}, "names CUDA or NCCL"},
      {{"kernels/cpu/rows_avx2.cpp", "#include <vector>\n"}, "sees <vector>"},
      {{"kernels/cpu/rows.inl", "#include <Eigen/Dense>\n"}, "sees <Eigen/Dense>"},
      {{"experiments/x.cpp", std::string(601, '\n')}, "more than 600 lines"},
      {{"experiments/run/x.cpp", "if (speculation.proposer == \"draft\") f();\n"}, "asks for a proposer by name"},
      {{"experiments/report/x.cpp", "return axes.proposer != \"none\";\n"}, "asks for a proposer by name"},
      {{"experiments/report/x.cpp", "if (outcome_of(ratio) == Outcome::faster) f();\n"}, "judges a ratio"}};
  for (const auto& [source, want] : planted) {
    const auto found = problems({source});
    ASSERT_EQ(found.size(), 1u) << source.path << " " << want;
    EXPECT_NE(found[0].find(want), std::string::npos) << found[0];
  }
  std::vector<Source> many;
  for (int i = 0; i < 31; ++i) many.push_back({fmt::format("experiments/ui/a{}.h", i), ""});
  EXPECT_EQ(problems(many), std::vector<std::string>{"experiments/ui: 31 files, at most 30: part it by ideas"});
  many.pop_back();
  EXPECT_EQ(problems(many), std::vector<std::string>{});
  const auto through = problems(
      {{"kernels/cpu/a_avx512.cpp", "#include \"kernels/cpu/b.h\"\n"}, {"kernels/cpu/b.h", "#include <algorithm>\n"}});
  ASSERT_EQ(through.size(), 1u);
  EXPECT_EQ(through[0], "kernels/cpu/a_avx512.cpp sees <algorithm> through kernels/cpu/b.h");
}

TEST(Layering, GoodEdgesPass) {
  const std::vector<Source> good = {
      {"kernels/cuda/x.cpp", "#include <cuda_runtime.h>\nint f() { return cudaMalloc(p, n); }\n"},
      {"engine/comm/nccl_comm.cpp", "#include <nccl.h>\n"},
      {"speculative/a.cpp", "#include \"engine/speculation.h\"\n#include \"speculative/a.h\"\n"},
      {"engine/engine.cpp", "#include \"engine/batch_builder.h\"\n#include <vector>\n"},
      {"experiments/bench/b.cpp", "#include \"engine/engine.h\"\n// #include \"nowhere.h\" is prose\n"},
      {"experiments/report/a.cpp",
       "#include \"experiments/analysis/metrics/summary.h\"\n#include \"experiments/report/a.h\"\n"},
      {"experiments/config/vllm_x.cpp", "return text == \"ngram\";\n"},
      {"experiments/report/b.cpp", "report.drafts() ? name : \"draft\";\n"},
      {"experiments/main.cpp", "#include \"experiments/commands/commands.h\"\n"},
      {"kernels/cpu/simd_x.h", "#include <immintrin.h>\n#include <cstdint>\n"}};
  for (const std::string& problem : problems(good)) ADD_FAILURE() << problem;
}

}  // namespace
}  // namespace paceline
