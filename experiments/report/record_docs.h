#pragma once
// The tables of results/README.md, from the fields that records list.

#include <string>

namespace paceline {

/// Markdown: a table for each struct that a record holds.
std::string record_docs();

}  // namespace paceline
