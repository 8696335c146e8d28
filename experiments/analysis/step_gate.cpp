#include "experiments/analysis/step_gate.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/mapped_file.h"
#include "experiments/config/config.h"
#include "experiments/results/files/files.h"

namespace paceline {

using nlohmann::ordered_json;

namespace {

constexpr const char* kStepSchema = "paceline.steps";
constexpr int kStepVersion = 1;

std::string numerics_name(Numerics numerics) { return std::string(names_of(numerics)[size_t(numerics)]); }

[[noreturn]] void fail_in(const std::filesystem::path& file, const std::string& field, const ordered_json& found,
                          const std::string& expected) {
  fail(ExitCode::usage, "{}: {} is {}, expected {}", file.string(), field, short_dump(found), expected);
}

/// The document, in which every ratio is a positive number.
ordered_json read_document(const std::filesystem::path& file) {
  const MappedFile mapped(file, ExitCode::usage, JsonLimits().max_bytes);
  const auto bytes = mapped.bytes();
  ordered_json document =
      parse_ordered_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string(), ExitCode::usage);
  const auto need_object = [&](const std::string& field, const ordered_json& value) {
    if (!value.is_object()) fail_in(file, field, value, "an object");
  };
  need_object("the document", document);
  const auto need = [&](const char* field, const ordered_json& value) {
    if (!document.contains(field) || document[field] != value)
      fail_in(file, field, document.contains(field) ? document[field] : ordered_json(), value.dump());
  };
  need("schema", kStepSchema);
  need("schema_version", kStepVersion);
  if (!document.contains("shapes")) fail_in(file, "shapes", nullptr, "an object");
  need_object("shapes", document["shapes"]);
  for (const auto& [shape, cards] : document["shapes"].items()) {
    need_object(shape, cards);
    for (const auto& [card, kinds] : cards.items()) {
      need_object(fmt::format("{}, {}", shape, card), kinds);
      for (const auto& [numerics, ratios] : kinds.items()) {
        const std::string place = fmt::format("{}, {}, {}", shape, card, numerics);
        if (numerics != numerics_name(Numerics::strict) && numerics != numerics_name(Numerics::fast))
          fail_in(file, fmt::format("{}, {}: a key", shape, card), numerics, "strict or fast");
        need_object(place, ratios);
        for (const auto& [name, ratio] : ratios.items())
          if (!ratio.is_number() || ratio.get<double>() <= 0)
            fail_in(file, fmt::format("{}, {}", place, name), ratio, "a ratio above 0");
      }
    }
  }
  return document;
}

std::vector<const JudgedStep*> with_verdict(const std::vector<JudgedStep>& steps, StepVerdict verdict) {
  std::vector<const JudgedStep*> found;
  for (const JudgedStep& step : steps)
    if (step.verdict == verdict) found.push_back(&step);
  return found;
}

/// "16 x 6 (1.243, committed 1.190), …"
std::string list_of(const std::vector<const JudgedStep*>& steps) {
  std::vector<std::string> texts;
  for (const JudgedStep* const judged : steps)
    texts.push_back(fmt::format("{} ({:.3f}, committed {:.3f})", judged->step.name, judged->step.ratio(),
                                judged->committed.value_or(0)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

StepRatio step_ratio(const StepTime& step, const StepCeilings& ceilings) {
  const double read_s = step.bytes / ceilings.read_bytes_s;
  const double multiply_s = ceilings.multiply_flops_s > 0 ? step.flops / ceilings.multiply_flops_s : 0.0;
  return {.name = step.name,
          .seconds = step.seconds,
          .floor_s = std::max(read_s, multiply_s),
          .reads = read_s >= multiply_s};
}

std::string card_of(const std::string& device_name) {
  std::istringstream words(device_name);
  for (std::string word; words >> word;)
    if (word == "H100" || word == "H200") return word;
  return device_name;
}

std::vector<CommittedSteps> read_committed_steps(const std::filesystem::path& file) {
  const ordered_json document = read_document(file);
  std::vector<CommittedSteps> entries;
  for (const auto& [shape, cards] : document["shapes"].items()) {
    for (const auto& [card, kinds] : cards.items()) {
      for (const auto& [numerics, ratios] : kinds.items()) {
        const bool fast = numerics == numerics_name(Numerics::fast);
        CommittedSteps& entry = entries.emplace_back();
        entry.key = {.shape = shape, .card = card, .numerics = fast ? Numerics::fast : Numerics::strict};
        for (const auto& [name, ratio] : ratios.items()) entry.ratios.push_back({name, ratio.get<double>()});
      }
    }
  }
  return entries;
}

void commit_steps(const std::filesystem::path& file, const StepKey& key, const std::vector<StepRatio>& steps) {
  ordered_json document = {
      {"schema", kStepSchema}, {"schema_version", kStepVersion}, {"shapes", ordered_json::object()}};
  if (std::filesystem::exists(file)) document = read_document(file);
  ordered_json ratios = ordered_json::object();
  for (const StepRatio& step : steps) ratios[step.name] = std::round(step.ratio() * 1000) / 1000;
  document["shapes"][key.shape][key.card][numerics_name(key.numerics)] = std::move(ratios);
  write_file_atomic(file, document.dump(2) + "\n");
}

const CommittedSteps* find_committed(const std::vector<CommittedSteps>& entries, const StepKey& key) {
  for (const CommittedSteps& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

std::vector<JudgedStep> judge_steps(const std::vector<StepRatio>& steps, const CommittedSteps* committed) {
  std::vector<JudgedStep> judged;
  for (const StepRatio& step : steps) {
    JudgedStep& of = judged.emplace_back();
    of.step = step;
    if (!committed) continue;
    for (const CommittedRatio& entry : committed->ratios)
      if (entry.name == step.name) of.committed = entry.ratio;
    if (!of.committed) continue;
    of.verdict = StepVerdict::ok;
    if (step.ratio() > *of.committed * (1 + kStepSlack)) of.verdict = StepVerdict::slower;
    if (step.ratio() < *of.committed / (1 + kStepSlack)) of.verdict = StepVerdict::faster;
  }
  return judged;
}

std::string step_line(const JudgedStep& judged) {
  const StepRatio& step = judged.step;
  std::string line = fmt::format("{:<22} {:9.3f} ms   over {:<11} {:6.3f}", step.name, step.seconds * 1e3,
                                 step.reads ? "reading" : "multiplying", step.ratio());
  if (!judged.committed) return line;
  line += fmt::format("   committed {:.3f}: ", *judged.committed);
  switch (judged.verdict) {
    case StepVerdict::slower: return line + "SLOWER";
    case StepVerdict::faster: return line + "faster";
    case StepVerdict::ok:
    case StepVerdict::not_known: break;
  }
  return line + "ok";
}

std::string steps_summary(const std::vector<JudgedStep>& steps, const StepKey& key) {
  std::string text = fmt::format("steps of {} on {}, {}: {}", key.shape, key.card, numerics_name(key.numerics),
                                 counted(int64_t(steps.size()), "case"));
  if (steps.empty()) return text;
  const auto farthest = std::max_element(steps.begin(), steps.end(), [](const JudgedStep& a, const JudgedStep& b) {
    return a.step.ratio() < b.step.ratio();
  });
  text += fmt::format(", farthest from its floor {:.3f} at {}", farthest->step.ratio(), farthest->step.name);
  const auto slower = with_verdict(steps, StepVerdict::slower), faster = with_verdict(steps, StepVerdict::faster);
  const size_t unknown = with_verdict(steps, StepVerdict::not_known).size();
  if (unknown == steps.size()) return text + "; nothing is committed for them";
  text += slower.empty() ? "; none slower than committed"
                         : fmt::format("; {} slower than committed: {}", slower.size(), list_of(slower));
  if (!faster.empty()) text += fmt::format("; {} faster, to be committed: {}", faster.size(), list_of(faster));
  if (unknown > 0) text += fmt::format("; {} not committed", unknown);
  return text;
}

ExitCode steps_exit_code(const std::vector<JudgedStep>& steps) {
  return with_verdict(steps, StepVerdict::slower).empty() ? ExitCode::ok : ExitCode::timing;
}

}  // namespace paceline
