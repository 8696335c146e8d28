#pragma once
// The reference of keys in docs/experiments.md, from the table of keys.

#include <string>

namespace paceline {

/// Markdown: a heading and a table for each section, a row for each key.
std::string key_reference_markdown();

}  // namespace paceline
