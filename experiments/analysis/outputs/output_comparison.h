#pragma once
// Which cell a cell's tokens are compared with, where they part, and a few requests whose outputs a reader can see.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/results/results.h"

namespace paceline {

/// Pointers are into `repetition`.
std::map<RequestKey, const RequestRecord*> requests_by_key(const RepetitionResult& repetition);

/// A request of one repetition whose tokens are not those of the reference: the first of them.
struct Parting {
  size_t repetition = 0, reference_repetition = 0;
  const RequestRecord* request = nullptr;
  const RequestRecord* reference = nullptr;
  size_t position = 0;  // of the output

  static constexpr int32_t kEnded = -1;
  int32_t token() const { return token_of(*request); }
  int32_t reference_token() const { return token_of(*reference); }

 private:
  int32_t token_of(const RequestRecord& record) const {
    return position < record.output.size() ? record.output[position] : kEnded;
  }
};

/// "repetition 0, request a: output token 5 is 7, expected 8"
std::string described(const Parting& parting);

/// What a request and its reference have in common at their beginning.
struct AgreeingTokens {
  const RequestRecord* request = nullptr;
  size_t count = 0;
};

/// Pointers are into both cells.
struct Comparison {
  std::vector<Parting> partings;         // by repetition, then in the order of the records
  std::vector<AgreeingTokens> agreeing;  // of the first repetition's requests
  int64_t requests = 0;                  // that were compared, of all repetitions
  int64_t tokens = 0;                    // in all, the longer output of each request
  int64_t tokens_until_parting = 0;      // the first ones that differ included
  std::string complaint;                 // requests that the other one has not; empty: none
};

/// Which repetition of `reference` one of `cell` is compared with: the first, or, where each draws anew, that of the
/// same number; none where `reference` has none.
std::optional<size_t> repetition_to_match(const CellResult& cell, const CellResult& reference, size_t repetition);

/// Every repetition of `cell` against its match of `reference`, request by request (dataset index and id); those
/// without one are left out.
Comparison compare_outputs(const CellResult& cell, const CellResult& reference);

/// Who is compared with whom: cells of one model, kind of device and numerics, that asked for the same text (sampling,
/// types, length: KeyEffect::text). A cell is usable when it is done and has a repetition.
class References {
 public:
  explicit References(const RunResult& run);

  /// The first usable cell without speculation of the cell's placement, where that is another one; else the first of
  /// all, which may be the cell itself. Null where there is none. Once `cell` and what this returns are done, cells
  /// behind both in plan order change nothing.
  const CellResult* of(const CellResult& cell) const;

  static bool usable(const CellResult& cell);

  /// Whether two cells could be compared: they asked for the same text of the same model.
  static bool are_alike(const CellResult& a, const CellResult& b) { return kind_of(a) == kind_of(b); }

 private:
  using Kind = std::tuple<std::string, std::string, std::string, bool>;  // model, device, what was asked, fast numerics
  static Kind kind_of(const CellResult& cell);

  std::map<Kind, const CellResult*> firsts_;
  std::map<std::tuple<Kind, int, int>, const CellResult*> by_placement_;  // tp, pp
};

/// A repetition that answered a request otherwise than the reference did.
struct SampleDifference {
  const CellResult* cell = nullptr;
  Parting parting;
};

/// One request, of the cells that are compared with one reference. Pointers are into the run.
struct SampleOutput {
  const CellResult* reference_cell = nullptr;
  const RequestRecord* reference = nullptr;  // of its first repetition
  int cells = 0;                             // compared, the reference with its other repetitions too
  int repetitions = 0;                       // of them all
  std::vector<SampleDifference> differences;
};

/// For each reference (References::of): of its requests those that some cell answered otherwise first, then those of
/// the smallest dataset index; at most `count` for each reference.
std::vector<SampleOutput> sample_outputs(const RunResult& run, size_t count);

}  // namespace paceline
