#include "experiments/workload/dataset.h"

#include <algorithm>
#include <array>
#include <set>

#include "engine/util/mapped_file.h"
#include "engine/util/suggest.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/workload/records.h"
#include "kernels/mix64.h"

namespace paceline {

namespace {

constexpr std::string_view kBuiltin = "builtin:";

/// A set that others publish, and where. Names are in lower case, with '_' for '-': `hint` is a part of a path that
/// means this set alone, `files` are the published names, which other sets may share.
struct PublicHome {
  DatasetFormat format;
  std::array<std::string_view, 2> hint;
  std::array<std::string_view, 4> files;
  const char* where;
};

constexpr std::array<PublicHome, 6> kPublicHomes = {{
    {DatasetFormat::spec_bench,
     {"spec_bench", "specbench"},
     {"question.jsonl"},
     "Spec-Bench: github.com/hemingkx/Spec-Bench, data/spec_bench/question.jsonl"},
    {DatasetFormat::mt_bench,
     {"mt_bench", "mtbench"},
     {"question.jsonl"},
     "MT-bench: github.com/lm-sys/FastChat, fastchat/llm_judge/data/mt_bench/question.jsonl"},
    {DatasetFormat::humaneval,
     {"humaneval", "human_eval"},
     {},
     "HumanEval: github.com/openai/human-eval, data/HumanEval.jsonl.gz, unpacked"},
    {DatasetFormat::gsm8k,
     {"gsm8k", "grade_school_math"},
     {"test.jsonl", "train.jsonl"},
     "GSM8K: github.com/openai/grade-school-math, grade_school_math/data/test.jsonl"},
    {DatasetFormat::squad,
     {"squad"},
     {"dev_v1.1.json", "dev_v2.0.json", "train_v1.1.json", "train_v2.0.json"},
     "SQuAD: rajpurkar.github.io/SQuAD-explorer, dev-v1.1.json or dev-v2.0.json"},
    {DatasetFormat::sharegpt,
     {"sharegpt"},
     {},
     "ShareGPT: huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered, "
     "ShareGPT_V3_unfiltered_cleaned_split.json"},
}};

/// Where the sets that may be meant are published: by the format, else by the path, else by the file's name alone.
std::vector<std::string_view> public_homes(const std::filesystem::path& file, DatasetFormat format) {
  const auto folded = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::tolower(c)); });
    return text;
  };
  const std::string path = folded(file.string()), name = folded(file.filename().string());
  std::vector<std::string_view> by_path, by_name;
  for (const PublicHome& home : kPublicHomes) {
    const auto is_in_path = [&](std::string_view hint) {
      return !hint.empty() && path.find(hint) != std::string::npos;
    };
    const bool meant = format == DatasetFormat::automatic ? std::any_of(home.hint.begin(), home.hint.end(), is_in_path)
                                                          : format == home.format;
    if (meant) by_path.emplace_back(home.where);
    if (std::find(home.files.begin(), home.files.end(), name) != home.files.end()) by_name.emplace_back(home.where);
  }
  return by_path.empty() && format == DatasetFormat::automatic ? by_name : by_path;
}

/// " (did you mean "builtin:reading_qa"?)": of a set that ships with the program and is named without that.
std::string did_you_mean_builtin(const std::filesystem::path& file) {
  const std::filesystem::path root = find_builtin_root(file);
  const std::string stem = file.stem().string();
  std::error_code ignored;
  if (root.empty() || !std::filesystem::exists(root / "workloads" / (stem + ".jsonl"), ignored)) return "";
  return fmt::format(" (did you mean \"{}{}\"?)", kBuiltin, stem);
}

[[noreturn]] void fail_missing(const std::filesystem::path& file, DatasetFormat format) {
  const std::vector<std::string_view> homes = public_homes(file, format);
  fail(ExitCode::model_file, "{}: dataset file not found{}: check workload.dataset{}{}", file.string(),
       did_you_mean_builtin(file), homes.empty() ? "" : ", or get ", fmt::join(homes, ", or "));
}

/// Bytes that begin files which must be unpacked first.
void refuse_compressed(std::string_view text, const std::filesystem::path& file) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kMagic = {
      {{"\x1f\x8b", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"PK\x03\x04", "zip"}, {"PAR1", "Parquet"}}};
  for (const auto& [magic, kind] : kMagic)
    if (text.starts_with(magic))
      fail(ExitCode::model_file, "{}: is a {} file: expected JSON Lines, JSON or CSV; unpack or convert it first",
           file.string(), kind);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // the golden ratio, as SplitMix64 counts

int64_t bytes_of(const Prompt& prompt) {
  auto bytes = static_cast<int64_t>(prompt.text.size());
  for (const PromptMessage& message : prompt.messages) bytes += static_cast<int64_t>(message.content.size());
  return bytes;
}

}  // namespace

std::string Prompt::plain_text() const {
  std::string all = text;
  for (const PromptMessage& message : messages) all += (all.empty() ? "" : "\n") + message.content;
  return all;
}

Dataset read_dataset(const std::filesystem::path& file, const DatasetOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) fail_missing(file, options.format);
  if (std::filesystem::is_directory(file, error))
    fail(ExitCode::model_file, "{}: is a folder: workload.dataset must name a file of prompts", file.string());
  const MappedFile mapped(file);
  mapped.advise_sequential();
  const std::span<const std::byte> bytes = mapped.bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  refuse_compressed(text, file);
  const DatasetFormat format = options.format == DatasetFormat::automatic ? detect_format(text, file) : options.format;
  PromptCollector prompts(file, options);
  switch (format) {
    case DatasetFormat::squad: read_squad(text, prompts); break;
    case DatasetFormat::sharegpt: read_sharegpt(text, prompts); break;
    case DatasetFormat::csv: read_csv(text, prompts); break;
    default: read_json_lines(text, format, prompts);
  }
  mapped.check_size();
  return prompts.finish(format);
}

std::vector<Prompt> load_dataset(const std::string& name, const std::filesystem::path& builtin_folder) {
  if (!name.starts_with(kBuiltin)) return read_dataset(name).prompts;
  const std::string stem = name.substr(kBuiltin.size());
  const std::filesystem::path file = builtin_folder / (stem + ".jsonl");
  std::error_code error;
  if (stem.find('/') == std::string::npos && std::filesystem::exists(file, error)) return read_dataset(file).prompts;
  std::vector<std::string> known;
  for (const auto& entry : std::filesystem::directory_iterator(builtin_folder, error)) {
    if (entry.path().extension() == ".jsonl") known.push_back(std::string(kBuiltin) + entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  fail(ExitCode::model_file, "workload.dataset: \"{}\" is not built in: {} holds {}", name, builtin_folder.string(),
       known.empty() ? std::string("none") : fmt::format("{}", fmt::join(known, ", ")));
}

std::vector<Prompt> filter_prompts(std::vector<Prompt> prompts, const std::vector<std::string>& categories,
                                   std::optional<int64_t> max_prompt_chars) {
  std::set<std::string> known;
  for (const Prompt& prompt : prompts)
    if (!prompt.category.empty()) known.insert(prompt.category);
  for (const std::string& category : categories) {
    if (!known.contains(category))
      fail(ExitCode::usage, "workload.categories: the data set has no category \"{}\"{}: it has {}", category,
           did_you_mean(category, {known.begin(), known.end()}),
           known.empty() ? std::string("none") : fmt::format("{}", fmt::join(known, ", ")));
  }
  const size_t before = prompts.size();
  std::erase_if(prompts, [&](const Prompt& prompt) {
    const bool wanted =
        categories.empty() || std::find(categories.begin(), categories.end(), prompt.category) != categories.end();
    return !wanted || (max_prompt_chars && bytes_of(prompt) > *max_prompt_chars);
  });
  if (prompts.empty() && before > 0)
    fail(ExitCode::usage, "workload.max_prompt_chars {}: all prompts of the data set are longer",
         max_prompt_chars.value_or(0));
  return prompts;
}

std::vector<Prompt> select_prompts(const std::vector<Prompt>& prompts, int64_t num_requests, uint64_t order_seed) {
  PACELINE_CHECK(num_requests >= 0, "num_requests {}", num_requests);
  if (num_requests == 0) return {};
  if (prompts.empty()) fail(ExitCode::model_file, "the dataset is empty but {} requests are asked for", num_requests);
  std::vector<size_t> order(prompts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (order_seed != 0) {
    for (size_t i = order.size() - 1; i > 0; --i) {  // Fisher-Yates; the modulo's bias (< 2^-40) does not matter here
      std::swap(order[i], order[mix64((order_seed + 1) * kGolden + i) % (i + 1)]);
    }
  }
  std::vector<Prompt> selected;
  selected.reserve(static_cast<size_t>(num_requests));
  for (int64_t i = 0; i < num_requests; ++i) {
    const auto round = i / static_cast<int64_t>(order.size());
    selected.push_back(prompts[order[static_cast<size_t>(i) % order.size()]]);
    if (round > 0) selected.back().id += fmt::format("#{}", round + 1);
  }
  return selected;
}

}  // namespace paceline
