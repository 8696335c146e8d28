#pragma once
// A command line of vLLM or SGLang as an experiment of ours: `runexp import-flags`. Functions look for files that model
// names name, nothing else.

#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/config.h"

namespace paceline {

/// ` (vLLM's name; here: "engine.parallel.tp")` for a name of vLLM's in `section` of a configuration; empty for others.
std::string hint_for_vllm_name(std::string_view name, std::string_view section);

/// The flags that have a key here: "--dtype", "--speculative-config", ...
std::vector<std::string> vllm_flag_names();

/// The proposers that flags can ask for: those of vLLM and SGLang.
std::vector<std::string> vllm_flag_methods();

/// A flag, a field or a value without a key here, as typed, and what was perhaps meant: ` (did you mean "x"?)` or "".
struct UnsupportedFlag {
  std::string text, hint;
};

/// An imported command line.
struct ImportedFlags {
  ConfigJson config = ConfigJson::object();  // nested keys, what the flags say and nothing else
  std::vector<std::string> notes;            // one line each: flags without a key, with their values; differences
  std::vector<UnsupportedFlag> unsupported;  // of these, what has no key
};

/// `words` is a command line as a shell splits it; a leading `vllm serve MODEL` or `python -m vllm...` is allowed.
/// '_' in flags is '-'; `--speculative-config.FIELD VALUE` sets one field of the JSON form; of what is said twice the
/// last counts. What has no key here becomes a note with its value. Throws ConfigError (exit code 2) for a value that
/// does not fit its key, and for a draft without what it needs.
ImportedFlags import_vllm_flags(const std::vector<std::string>& words);

/// The experiment as text for a file in configs/: notes as comments, then the keys.
std::string imported_text(const ImportedFlags& imported);

}  // namespace paceline
