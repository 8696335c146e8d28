#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "experiments/analysis/outputs/output_comparison.h"
#include "experiments/report/html/parts.h"
#include "experiments/report/svg/chart.h"

namespace paceline::html {

namespace {

constexpr size_t kMaxSamples = 3, kMaxReferences = 4, kMaxDifferences = 4, kMaxTokens = 200, kMarkedTokens = 24;

/// The replacement character for each byte that is no part of well-formed UTF-8.
std::string well_formed(const std::string& bytes) {
  // The JSON library knows the rules; quotes and escapes are undone by reading it back.
  const std::string json = nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(json).get<std::string>();
}

/// Tokens of one model as text, or as ids where no texts were kept.
class TokenReader {
 public:
  TokenReader(const RunResult& run, const std::string& model) {
    for (const SampleTexts& texts : run.sample_texts)
      if (texts.model == model) texts_ = &texts;
  }
  std::string text(std::span<const int32_t> tokens) const {
    std::string out;
    for (int32_t token : tokens) {
      const SampleTexts::Token* const known = find(token);
      if (texts_ == nullptr)
        out += fmt::format("{}{}", out.empty() ? "" : " ", token);
      else
        out += known ? known->bytes : fmt::format("⟨{}⟩", token);
    }
    return html_escaped(well_formed(out));
  }
  std::string prompt(const RequestRecord& request) const {
    if (texts_ == nullptr) return "";
    for (const SampleTexts::Prompt& p : texts_->prompts)
      if (p.dataset_index == request.dataset_index && p.id == request.id) return html_escaped(well_formed(p.text));
    return "";
  }

 private:
  const SampleTexts::Token* find(int32_t token) const {
    if (texts_ == nullptr) return nullptr;
    const auto at = std::lower_bound(texts_->tokens.begin(), texts_->tokens.end(), token,
                                     [](const SampleTexts::Token& t, int32_t id) { return t.id < id; });
    return at != texts_->tokens.end() && at->id == token ? &*at : nullptr;
  }

  const SampleTexts* texts_ = nullptr;
};

std::span<const int32_t> slice(const std::vector<int32_t>& tokens, size_t begin, size_t end) {
  begin = std::min(begin, tokens.size());
  end = std::clamp(end, begin, tokens.size());
  return {tokens.data() + begin, end - begin};
}

/// What both have up to the parting, shortened, then the tokens that differ, marked.
std::string difference(const Report& report, const SampleDifference& d, const TokenReader& reader) {
  const Parting& parting = d.parting;
  const size_t at = parting.position, from = at > kMarkedTokens ? at - kMarkedTokens : 0;
  const auto line = [&](const RequestRecord& record, const char* tag) {
    const std::string text = reader.text(slice(record.output, at, at + kMarkedTokens));
    return fmt::format("{}{}<{} class=\"part\">{}</{}>{}", from > 0 ? "… " : "",
                       reader.text(slice(record.output, from, at)), tag, text.empty() ? "(ended)" : text, tag,
                       at + kMarkedTokens < record.output.size() ? " …" : "");
  };
  return fmt::format("<p class=\"bad\">{}, repetition {}: differs from token {} on</p><pre>− {}\n+ {}</pre>",
                     html_escaped(report.label(d.cell->axes)), parting.repetition, at, line(*parting.reference, "del"),
                     line(*parting.request, "ins"));
}

std::string sample(const Report& report, const SampleOutput& s, const TokenReader& reader) {
  const RequestRecord& record = *s.reference;
  std::string out = fmt::format("<details{}><summary>Request {}, {} tokens: ", s.differences.empty() ? "" : " open",
                                html_escaped(record.id), record.num_tokens());
  if (s.differences.empty())
    out += fmt::format("<span class=\"good\">✓ the same in all {} repetitions of {} cells</span></summary>",
                       s.repetitions, s.cells);
  else
    out += fmt::format("<span class=\"bad\">✗ {} of {} repetitions differ</span></summary>", s.differences.size(),
                       s.repetitions);
  if (const std::string prompt = reader.prompt(record); !prompt.empty())
    out += "<p class=\"note\">Prompt</p><pre>" + prompt + "</pre>";
  out += fmt::format("<p class=\"note\">Output of {} (no speculation)</p><pre>{}{}</pre>",
                     html_escaped(report.label(s.reference_cell->axes)),
                     reader.text(slice(record.output, 0, kMaxTokens)), record.output.size() > kMaxTokens ? " …" : "");
  for (size_t i = 0; i < std::min(s.differences.size(), kMaxDifferences); ++i)
    out += difference(report, s.differences[i], reader);
  if (s.differences.size() > kMaxDifferences)
    out += note(fmt::format("and {} more", s.differences.size() - kMaxDifferences));
  return out + "</details>\n";
}

}  // namespace

Section samples_section(const Report& report) {
  Section section{"samples", "Sample outputs", ""};
  std::vector<const CellResult*> shown;  // references whose texts are told
  const CellResult* last = nullptr;
  bool is_first = false;
  size_t references = 0;
  for (const SampleOutput& s : sample_outputs(report.run, kMaxSamples)) {
    const bool is_new = s.reference_cell != last;
    last = s.reference_cell;
    if (is_new && ++references > kMaxReferences) break;
    if (is_new) {  // those alike have been compared with the first of them
      is_first = std::none_of(shown.begin(), shown.end(), [&](const CellResult* other) {
        return References::are_alike(*other, *s.reference_cell);
      });
      if (is_first) shown.push_back(s.reference_cell);
    }
    const std::string reference = html_escaped(report.label(s.reference_cell->axes));
    if (is_first || !s.differences.empty()) {
      if (is_new) section.body += "<h3>Against " + reference + "</h3>";
      section.body += sample(report, s, TokenReader(report.run, s.reference_cell->model));
    } else if (is_new) {
      section.body +=
          fmt::format("<p>Against {}: <span class=\"good\">✓ the same in all {} repetitions of {} cells</span></p>",
                      reference, s.repetitions, s.cells);
    }
  }
  if (section.body.empty()) return section;
  section.body += note(
      "In every repetition, a cell's tokens are compared with those of the cell without speculation in the same "
      "placement; a cell without speculation is compared with the first such cell. Requests that differ come first. − "
      "reference, + this cell. With the acceptance rules \"rejection\" and \"block\" "
      "(<code>speculation.verifier.rule</code>) the distribution of outputs stays the same, not their tokens.");
  return section;
}

}  // namespace paceline::html
