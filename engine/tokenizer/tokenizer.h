#pragma once
// BPE tokenizers read from a model's files: byte-level (GPT-2, Llama 3, GPT-NeoX, Qwen 2, StarCoder, OPT, …) and
// SentencePiece-like with byte fallback (Llama 2, Mistral, Phi-3, Gemma, …).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct EncodeOptions {
  /// false: "<|end|>" in the text is plain text, so that text can never smuggle in a control token.
  bool parse_special = false;
  /// Add what the file's post-processor adds around one text (bos and the like).
  bool add_special = false;
};

struct DecodeOptions {
  bool skip_special = false;  // leave special tokens out
};

struct TokenizerLoad {
  /// How text is cut where the file does not say it: a name of engine/text/pre_tokenizer_table.h. Empty: by
  /// "model_type" of the config.json beside it.
  std::string pre;
};

struct TokenizerParts;
class EncodeScratchPool;

/// Immutable; every member may be called from any thread.
class Tokenizer {
 public:
  /// `path` is a folder or a file. A folder is searched for
  /// - tokenizer.json;
  /// - vocab.json + merges.txt (ByteLevel; added_tokens.json and the tokens of tokenizer_config.json are honoured);
  /// - tokenizer.model, SentencePiece's or tiktoken's (the tokens of tokenizer_config.json are honoured).
  /// A file is a tokenizer.json or, by its name's end, a .model or .gguf; `pre` goes before what a .gguf file says.
  /// Throws Error(model_file) naming file and entry for anything that is missing, broken or not supported, and where
  /// nothing says how text is cut; Error(usage) for a `pre` beside a file that says it itself.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& path, const TokenizerLoad& options = {});

  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Memory of a few MiB is kept between calls, as often as threads ever called at once.
  /// Ill-formed UTF-8 is replaced first, one U+FFFD for every maximal ill-formed subpart.
  /// Throws Error(model_file) for a pattern that blows up on this text, PACELINE_CHECK for 2 GiB and more.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The bytes of the tokens, joined, with ill-formed UTF-8 replaced as in encode, without the blank at the beginning
  /// that encode put there. Ids outside the vocabulary (the padded tail of a model's output) stand for nothing.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  /// Number of ids, added tokens included; ids are 0 … vocab_size() − 1.
  int32_t vocab_size() const;
  std::optional<int32_t> token_to_id(std::string_view text) const;
  /// The token as the file spells it ("Ġthe"), for comparing vocabularies. REQUIRES 0 <= id < vocab_size().
  std::string_view id_to_token(int32_t id) const;
  /// The raw bytes (" the"), perhaps part of a character; empty for ids outside the vocabulary.
  std::string_view token_bytes(int32_t id) const;
  /// False for ids outside the vocabulary.
  bool is_special(int32_t id) const;
  /// Ids of all special tokens, ascending.
  std::vector<int32_t> special_ids() const;
  /// Whether decode leaves out a blank at the beginning.
  bool strips_blank() const;

 private:
  std::unique_ptr<const TokenizerParts> parts_;
  std::unique_ptr<EncodeScratchPool> scratch_;
};

}  // namespace paceline
