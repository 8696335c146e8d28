#pragma once
// Where the rows of branching drafts find their keys: a batch's parents, written out as paths for attention.

#include <vector>

#include "engine/batch.h"
#include "kernels/op_args.h"

namespace paceline {

/// Reused from batch to batch.
class KeyPathTable {
 public:
  /// Sets tree_begin of the spans, one for each of batch.seqs, whose drafts branch. Returns views of this table, which
  /// hold until the next call; empty where no drafts branch.
  KeyPaths fill(const Batch& batch, std::vector<SeqSpan>& spans);

 private:
  std::vector<int32_t> begin_, place_;
};

}  // namespace paceline
