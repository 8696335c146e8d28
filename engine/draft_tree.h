#pragma once
// The drafts of one sequence for one step, as a tree that grows from its last verified token (Miao et al. 2024,
// SpecInfer, section 3). A chain is a tree without branches.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paceline {

/// Most drafts of a sequence in one step: bounds its state on the device.
inline constexpr int kMaxDraftLen = 64;

/// Parents stand before their children. Plain data: who makes one sees to it that tree_fault() finds nothing.
struct DraftTree {
  static constexpr int32_t kRoot = -1;  // the parent of what follows the last verified token

  std::vector<int32_t> token;   // [size]
  std::vector<int32_t> parent;  // [size], each an index below its own, or kRoot
  std::vector<float> score;     // [size], how sure the proposer is that the target goes on from the parent to this
                                // token, 0 to 1; or empty: it cannot say

  static DraftTree chain(std::vector<int32_t> tokens);

  int size() const { return int(token.size()); }
  bool empty() const { return token.empty(); }
  bool is_chain() const;
  /// Returns the new node's index.
  int32_t add(int32_t token_id, int32_t parent_index);
  /// [size]; 0 for the children of the root.
  std::vector<int32_t> depths() const;
  /// Positions behind the root that it reaches.
  int depth() const;
};

/// The accepted nodes `path` where their KV must move, since they do not lie at their depths 0, 1, …; else empty.
std::span<const int32_t> path_out_of_place(std::span<const int32_t> path);

/// What no one may propose, in words: more than kMaxDraftLen nodes, lengths that differ, a parent that does not stand
/// before its child, a score below 0 or NaN, siblings with one token. Empty: nothing.
std::string tree_fault(const DraftTree& tree);

}  // namespace paceline
