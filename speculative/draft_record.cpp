#include "speculative/draft_record.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/util/json_io.h"
#include "engine/util/user_file.h"
#include "kernels/fnv1a.h"

namespace paceline {
namespace {

constexpr std::string_view kForm = "paceline_drafts";

using nlohmann::json;

/// A line of the file that is being read.
struct Line {
  const std::filesystem::path& file;
  int64_t number = 0;
  std::string_view text = {};

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::model_file, "{}:{}: {}", file.string(), number, what);
  }
  template <class Value>
  Value get(const json& object, const char* key, const char* expected) const {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end())
      refuse(fmt::format("\"{}\" is missing: expected {}", key, expected));
    bool is_right;
    if constexpr (std::is_same_v<Value, std::vector<int32_t>>)
      is_right = found->is_array() && std::all_of(found->begin(), found->end(), [](const json& item) {
                   return integer_of<int32_t>(item, -1).has_value();
                 });
    else if constexpr (std::is_same_v<Value, std::string>)
      is_right = found->is_string();
    else
      is_right = integer_of<Value>(*found).has_value();
    if (!is_right) refuse(fmt::format("\"{}\": expected {}", key, expected));
    return found->template get<Value>();
  }
};

/// 16 hex digits as fmt writes them.
std::optional<uint64_t> digest_of(std::string_view text) {
  uint64_t digest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (error != std::errc() || fmt::format("{:016x}", digest) != text) return std::nullopt;
  return digest;
}

DraftTree read_tree(const Line& line, const json& drafts, int vocab_size) {
  DraftTree tree = DraftTree::chain(line.get<std::vector<int32_t>>(drafts, "token", "a list of token ids"));
  if (drafts.contains("parent"))
    tree.parent = line.get<std::vector<int32_t>>(drafts, "parent", "a list of numbers of nodes, -1 for the text");
  for (const int32_t token : tree.token)
    if (token < 0 || (vocab_size > 0 && token >= vocab_size))
      line.refuse(vocab_size == 0
                      ? fmt::format("\"token\": {} is no token's id", token)
                      : fmt::format("\"token\": {} is none of the target's ids, 0 to {}", token, vocab_size - 1));
  if (const std::string fault = tree_fault(tree); !fault.empty()) line.refuse(fault);
  return tree;
}

}  // namespace

uint64_t prompt_digest(std::span<const int32_t> tokens) {
  Fnv1a hash;
  hash.add(tokens.data(), tokens.size_bytes());
  return hash.value();
}

std::string draft_record_text(const DraftRecord& record) {
  std::string text = json{{kForm, 1}}.dump() + "\n";
  for (const auto& [key, request] : record) {
    json drafts = json::array();
    for (const auto& [at, tree] : request.at) {
      json of{{"at", at}, {"token", tree.token}};
      if (!tree.is_chain()) of["parent"] = tree.parent;
      drafts.push_back(std::move(of));
    }
    text += json{{"request", key}, {"prompt", fmt::format("{:016x}", request.prompt)}, {"drafts", std::move(drafts)}}
                .dump() +
            "\n";
  }
  return text;
}

DraftRecord read_draft_record(const std::filesystem::path& file, int vocab_size) {
  const std::string bytes = read_user_file(file, {.code = ExitCode::model_file, .max_bytes = size_t{4} << 30});
  std::string_view left = bytes;
  DraftRecord record;
  for (Line line{.file = file, .number = 1}; !left.empty() || line.number == 1; ++line.number) {
    const size_t end = std::min(left.find('\n'), left.size());
    line.text = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    if (line.number > 1 && line.text.empty()) continue;
    const std::string source = fmt::format("{}:{}", file.string(), line.number);
    if (line.number == 1) {
      if (const json head = json::parse(line.text, nullptr, false); head.is_discarded() || head != json{{kForm, 1}})
        line.refuse(
            fmt::format("no record of drafts: expected {}; measure.record_drafts writes one", json{{kForm, 1}}.dump()));
      continue;
    }
    const json object = parse_json(line.text, source, ExitCode::model_file);
    const auto key = line.get<int64_t>(object, "request", "the number of a request");
    RequestDrafts request{.line = line.number};
    const auto digest = digest_of(line.get<std::string>(object, "prompt", "16 hex digits"));
    if (!digest) line.refuse("\"prompt\": expected 16 hex digits");
    request.prompt = *digest;
    const auto drafts = object.find("drafts");
    if (drafts == object.end() || !drafts->is_array()) line.refuse("\"drafts\": expected a list");
    for (const json& of : *drafts) {
      const auto at = line.get<int32_t>(of, "at", "a number of tokens");
      if (at < 1) line.refuse(fmt::format("\"at\": found {}, expected a number of tokens, 1 at least", at));
      if (!request.at.emplace(at, read_tree(line, of, vocab_size)).second)
        line.refuse(fmt::format("drafts behind {} tokens are there twice", at));
    }
    if (!record.emplace(key, std::move(request)).second) line.refuse(fmt::format("request {} is there twice", key));
  }
  return record;
}

void RecordsProposals::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  inner().propose(requests, out);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    if (seq.key == 0 || out[i].draft.empty()) continue;
    RequestDrafts& request = record_[seq.key];
    request.prompt = prompt_digest(std::span(seq.tokens).first(size_t(seq.num_prompt)));
    request.at[seq.length()] = {.token = out[i].draft.token, .parent = out[i].draft.parent, .score = {}};
  }
}

}  // namespace paceline
