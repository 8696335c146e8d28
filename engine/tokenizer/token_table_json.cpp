#include "engine/tokenizer/token_table_json.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/text/pre_tokenizer_table.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBlankMark = "\xe2\x96\x81";  // U+2581, for a blank

TokenKind kind_of(const TokenTable& table, size_t id) {
  return table.kinds.empty() ? TokenKind::normal : table.kinds[id];
}

bool is_added(const TokenTable& table, size_t id) {
  const TokenKind kind = kind_of(table, id);
  return kind == TokenKind::control || kind == TokenKind::user_defined || kind == TokenKind::unknown;
}

Json added_tokens(const TokenTable& table) {
  Json added = Json::array();
  for (size_t id = 0; id < table.tokens.size(); ++id)
    if (is_added(table, id))
      added.push_back({{"id", id},
                       {"content", table.tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", kind_of(table, id) != TokenKind::user_defined}});
  return added;
}

/// What joins, as merges: each way to make a token of two others, those of the highest score first.
std::vector<std::pair<std::string, std::string>> merges_by_score(const TokenTable& table) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < table.tokens.size(); ++id) ids.emplace(table.tokens[id], id);
  std::vector<std::tuple<float, std::string_view, std::string_view>> found;
  for (size_t id = 0; id < table.tokens.size(); ++id) {
    if (kind_of(table, id) != TokenKind::normal) continue;
    const std::string_view token = table.tokens[id];
    for (size_t cut = 1; cut < token.size(); ++cut)
      if (ids.contains(token.substr(0, cut)) && ids.contains(token.substr(cut)))
        found.emplace_back(table.scores[id], token.substr(0, cut), token.substr(cut));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return std::get<0>(a) > std::get<0>(b); });
  std::vector<std::pair<std::string, std::string>> merges;
  for (const auto& [score, left, right] : found) merges.emplace_back(left, right);
  return merges;
}

Json merges_as_written(const TokenTable& table) {
  Json merges = Json::array();
  for (const std::string& merge : table.merges) merges.push_back(merge);
  return merges;
}

Json split(std::string_view pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json byte_level(bool trim_offsets) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim_offsets}, {"use_regex", false}};
}

Json replace(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json token_of(const TokenTable& table, std::optional<int32_t> id) {
  return id ? Json(table.tokens[size_t(*id)]) : Json();
}

/// bos before and eos after a text, where they belong there.
Json post_processor(const TokenTable& table, bool bos, bool eos) {
  Json single = Json::array(), specials = Json::object();
  const auto add = [&](std::optional<int32_t> id) {
    const std::string& token = table.tokens[size_t(*id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    specials[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  if (bos) add(table.bos_id);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (eos) add(table.eos_id);
  if (single.size() == 1) return nullptr;
  Json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

Json model_of(const TokenTable& table, Json merges, bool byte_fallback, bool whole_pieces) {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < table.tokens.size(); ++id) vocabulary[table.tokens[id]] = id;
  // Byte-level: every byte has a token.
  const Json unknown = table.spelling == TokenSpelling::byte_level ? Json() : token_of(table, table.unknown_id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", byte_fallback},
          {"byte_fallback", byte_fallback},
          {"ignore_merges", whole_pieces},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

void add_byte_level(const TokenTable& table, Json& out) {
  const NamedPreTokenizer& pre = named_pre_tokenizer(table.pre, table.file + ": pre-tokenizer");
  Json stages = Json::array();
  for (const std::string_view pattern : pre.patterns) stages.push_back(split(pattern));
  stages.push_back(byte_level(true));
  out["normalizer"] = pre.composes ? Json{{"type", "NFC"}} : Json();
  out["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(stages)}};
  out["post_processor"] = post_processor(table, table.bos_id && table.add_bos.value_or(pre.adds_bos),
                                         table.eos_id && table.add_eos.value_or(false));
  out["decoder"] = byte_level(true);
  out["model"] = model_of(table, merges_as_written(table), false, pre.whole_pieces);
}

void add_metaspace(const TokenTable& table, Json& out) {
  Json normalizers = Json::array();
  if (table.add_space_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kBlankMark}});
  normalizers.push_back(replace(" ", kBlankMark));
  Json decoders = {replace(kBlankMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (table.add_space_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  out["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  out["pre_tokenizer"] = nullptr;
  out["post_processor"] = post_processor(table, table.bos_id && table.add_bos.value_or(true),
                                         table.eos_id && table.add_eos.value_or(false));
  out["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  Json merges = Json::array();
  for (auto& [left, right] : merges_by_score(table)) merges.push_back({std::move(left), std::move(right)});
  out["model"] = model_of(table, std::move(merges), table.byte_fallback, false);
}

}  // namespace

Json tokenizer_json(const TokenTable& table) {
  for (size_t id = 0; id < table.tokens.size(); ++id)
    if (!utf8_valid(table.tokens[id]))
      fail(ExitCode::model_file, "{}: tokens[{}]: {} is no UTF-8, which tokenizer.json needs", table.file, id,
           json_literal(table.tokens[id]));
  Json out = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added_tokens(table)}};
  switch (table.spelling) {
    case TokenSpelling::byte_level: add_byte_level(table, out); break;
    case TokenSpelling::metaspace: add_metaspace(table, out); break;
  }
  return out;
}

}  // namespace paceline
