#include "engine/tokenizer/token_table.h"

#include <cmath>
#include <limits>
#include <utility>

#include "engine/text/pre_tokenizer_table.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr size_t kMaxJoinedBytes = 4096;  // cutting a token everywhere costs its length squared

/// A table that is being checked.
class TableReader {
 public:
  explicit TableReader(TokenTable table) : table_(std::move(table)) {}

  TokenizerSource read() {
    check_sizes();
    source_.file = table_.file;
    source_.spelling = table_.spelling;
    source_.vocabulary_entry = "tokens";
    source_.merges_entry = "merges";
    source_.byte_fallback = is_metaspace() && table_.byte_fallback;
    read_tokens();
    read_joins();
    read_unknown();
    if (is_metaspace())
      set_blanks();
    else
      set_words();
    add_around(table_.add_bos.value_or(is_metaspace() ? table_.bos_id.has_value() : adds_bos_), "bos", table_.bos_id,
               source_.prefix_ids);
    add_around(table_.add_eos.value_or(false), "eos", table_.eos_id, source_.suffix_ids);
    return std::move(source_);
  }

 private:
  bool is_metaspace() const { return table_.spelling == TokenSpelling::metaspace; }
  bool user_defined_comes_first() const { return table_.space_prefix_until == SpanPlace::after_added; }
  TokenKind kind(size_t id) const { return table_.kinds.empty() ? TokenKind::normal : table_.kinds[id]; }

  void check_sizes() const {
    const size_t num_tokens = table_.tokens.size();
    if (num_tokens == 0) fail(ExitCode::model_file, "{}: tokens is empty", table_.file);
    if (num_tokens > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
      fail(ExitCode::model_file, "{}: {} tokens, expected fewer than 2^31", table_.file, num_tokens);
    const auto check = [&](const char* name, size_t size) {
      if (size != 0 && size != num_tokens)
        fail(ExitCode::model_file, "{}: {} has {} entries, expected {} as tokens has", table_.file, name, size,
             num_tokens);
    };
    check("token types", table_.kinds.size());
    check("scores", table_.scores.size());
    if (table_.scores.empty() && is_metaspace())
      fail(ExitCode::model_file, "{}: no scores, which say how SentencePiece's tokens join", table_.file);
    const std::pair<const char*, std::optional<int32_t>> ids[] = {
        {"bos", table_.bos_id}, {"eos", table_.eos_id}, {"unknown", table_.unknown_id}};
    for (const auto& [name, id] : ids) {
      if (id && (*id < 0 || static_cast<size_t>(*id) >= num_tokens))
        fail(ExitCode::model_file, "{}: {} token: id {} is not in [0, {})", table_.file, name, *id, num_tokens);
    }
  }

  void read_tokens() {
    source_.entries.reserve(table_.tokens.size());
    for (size_t id = 0; id < table_.tokens.size(); ++id) {
      const std::string& text = table_.tokens[id];
      if (!utf8_valid(text)) fail(ExitCode::model_file, "{}: tokens[{}]: not UTF-8", table_.file, id);
      const TokenKind its_kind = kind(id);
      const bool is_end = static_cast<int64_t>(id) == table_.bos_id || static_cast<int64_t>(id) == table_.eos_id;
      const bool special = its_kind == TokenKind::control || its_kind == TokenKind::unknown || is_end;
      const bool added = special || its_kind == TokenKind::user_defined;
      if (added && !text.empty()) {
        if (text.size() > kMaxAddedTokenBytes)
          fail(ExitCode::model_file, "{}: tokens[{}]: {} bytes of a {} token, expected at most {}", table_.file, id,
               text.size(), special ? "control" : "user-defined", kMaxAddedTokenBytes);
        source_.added.push_back({.content = text,
                                 .id = static_cast<int32_t>(id),
                                 .special = special,
                                 .normalized = !special && is_metaspace() && !user_defined_comes_first()});
      }
      source_.entries.push_back(
          {.text = text, .id = static_cast<int64_t>(id), .where = {}, .added = added || joins_never(its_kind)});
    }
  }

  static bool joins_never(TokenKind its_kind) { return its_kind == TokenKind::unused; }

  void read_joins() {
    if (!table_.scores.empty()) {
      source_.scores = std::move(table_.scores);
      for (size_t id = 0; id < source_.scores.size(); ++id) {
        if (std::isnan(source_.scores[id]))
          fail(ExitCode::model_file, "{}: scores[{}]: expected a number, found NaN", table_.file, id);
        const bool joins = kind(id) == TokenKind::normal || kind(id) == TokenKind::user_defined;
        if (joins && table_.tokens[id].size() > kMaxJoinedBytes)
          fail(ExitCode::model_file, "{}: tokens[{}]: {} bytes, expected at most {}", table_.file, id,
               table_.tokens[id].size(), kMaxJoinedBytes);
        if (!joins) source_.scores[id] = std::numeric_limits<float>::quiet_NaN();
      }
      return;
    }
    source_.merges.reserve(table_.merges.size());
    for (size_t i = 0; i < table_.merges.size(); ++i) {
      const std::string& text = table_.merges[i];
      const size_t blank = text.find(' ', 1);  // a merge never has an empty side
      if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos)
        fail(ExitCode::model_file, "{}: merges[{}]: expected two tokens with one blank between, found {}", table_.file,
             i, json_literal(text));
      source_.merges.push_back({text.substr(0, blank), text.substr(blank + 1)});
    }
  }

  void read_unknown() {
    if (!table_.unknown_id) {
      for (size_t id = 0; id < table_.kinds.size() && !table_.unknown_id; ++id) {
        if (table_.kinds[id] == TokenKind::unknown) table_.unknown_id = static_cast<int32_t>(id);
      }
    }
    if (!table_.unknown_id) return;
    source_.unknown_token = table_.tokens[static_cast<size_t>(*table_.unknown_id)];
    source_.fuse_unknown = true;
  }

  void set_blanks() {
    source_.normalizer = Normalizer::metaspace({.collapse = table_.collapse_white_space,
                                                .prepend = table_.add_space_prefix,
                                                .until = table_.space_prefix_until});
    source_.strips_blank = table_.add_space_prefix;
    source_.pre_tokenizer = in_sequence({});
  }

  void set_words() {
    const NamedPreTokenizer& row = named_pre_tokenizer(table_.pre, table_.file);
    source_.pre_tokenizer = make_pre_tokenizer(row);
    if (row.composes) source_.normalizer = Normalizer::nfc();
    // Without merges the tokens themselves are the scheme: a piece that is one needs no joining (tiktoken).
    source_.ignore_merges = row.whole_pieces || !source_.scores.empty();
    adds_bos_ = row.adds_bos && table_.bos_id.has_value();
  }

  void add_around(bool wanted, const char* name, std::optional<int32_t> id, std::vector<int32_t>& ids) const {
    if (!wanted) return;
    if (!id) fail(ExitCode::model_file, "{}: a {} token is to be added, but none is named", table_.file, name);
    ids.push_back(*id);
  }

  TokenTable table_;
  TokenizerSource source_;
  bool adds_bos_ = false;
};

}  // namespace

TokenizerSource read_token_table(TokenTable table) { return TableReader(std::move(table)).read(); }

std::shared_ptr<const Tokenizer> make_tokenizer(TokenTable table) {
  return std::make_shared<const Tokenizer>(assemble(read_token_table(std::move(table))));
}

}  // namespace paceline
