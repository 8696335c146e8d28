#pragma once
// Work on the rows of a matrix, on several threads where there is enough of it.

#include <cstdint>
#include <functional>

#include "kernels/cpu/thread_pool.h"

namespace paceline {

/// Calls body(begin, end) for disjoint pieces that cover [0, num_rows), on as many threads as there are usable cores
/// and work for them. Throws what a body threw.
void for_row_blocks(int64_t num_rows, int64_t num_cols, const std::function<void(int64_t, int64_t)>& body);

/// The same on the threads of `pool`, where there is one: to start one takes as long as to decode 150,000 values.
void for_row_blocks(ThreadPool* pool, int64_t num_rows, int64_t num_cols,
                    const std::function<void(int64_t, int64_t)>& body);

}  // namespace paceline
