#pragma once
// A command line of vLLM as an experiment of ours: `runexp import-flags`. Pure functions.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/config.h"

namespace paceline {

/// What becomes of a flag.
enum class VllmFlagKind : uint8_t {
  value,           // --flag VALUE sets a key
  enabled,         // --flag or --no-flag sets a boolean key
  model,           // the target
  speculation,     // --flag VALUE, a field of the speculative configuration
  config,          // --speculative-config '{...}'
  dropped,         // takes a value and has no key here
  dropped_switch,  // takes no value and has no key here
};

struct VllmFlag {
  std::string_view name;  // with '-', without "--"
  VllmFlagKind kind = VllmFlagKind::dropped;
  std::string_view target;  // key path; for speculation: the field's name in --speculative-config
  std::string_view note;    // why it is dropped, or what differs here
  bool is_old = false;      // vLLM has replaced or removed it
};

/// The flags that are known, in the order of the table.
std::span<const VllmFlag> vllm_flags();

/// ` (vLLM's name; here: "engine.parallel.tp")` for a name of vLLM's in `section` of a configuration, or why there is
/// no such thing here; empty for other names.
std::string hint_for_vllm_name(std::string_view name, std::string_view section);

/// An imported command line.
struct ImportedFlags {
  ConfigJson config = ConfigJson::object();  // nested keys, what the flags say and nothing else
  std::vector<std::string> notes;            // one line each: old spellings, differences, what was left out and why
};

/// `words` is a command line as a shell splits it; a leading `vllm serve MODEL` or `python -m vllm...` is allowed.
/// '_' in flags is '-'; `--speculative-config.FIELD VALUE` sets one field of the JSON form. Flags that are not known
/// become notes, unless they look like a typing mistake of a known one. Throws ConfigError (exit code 2) for a value
/// that does not fit its key, for flags that contradict each other, and for a draft without what it needs.
ImportedFlags import_vllm_flags(const std::vector<std::string>& words);

/// The experiment as text for a file in configs/: notes as comments, then the keys.
std::string imported_text(const ImportedFlags& imported);

/// Splits `text` as a POSIX shell would: blanks separate, '...', "..." and backslash quote. Throws Error(usage) for a
/// quote that is never closed.
std::vector<std::string> split_shell_words(std::string_view text);

}  // namespace paceline
