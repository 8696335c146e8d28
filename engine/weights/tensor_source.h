#pragma once
// Where the loader takes tensors from: the files of a checkpoint, or a rule that makes them.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/safetensors.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/op_args.h"

namespace paceline {

class ThreadPool;

/// Rows [row_begin, row_begin + num_rows) and columns [col_begin, col_begin + num_cols) of a tensor [rows, cols]; a
/// tensor of one dimension n is [1, n].
struct TensorRange {
  int64_t row_begin = 0;
  int64_t num_rows = 0;
  int64_t col_begin = 0;
  int64_t num_cols = 0;
};

/// The whole of `tensor`. REQUIRES one or two dimensions.
TensorRange whole_range(const TensorInfo& tensor);

/// `view` lies in a mapping that the source owns, or in `owned`, or `made` makes its rows.
struct TensorPart {
  HostWeight view;
  MappedMemory owned;
  bool lent = false;                      // `owned` is from TensorSource::room_for
  std::shared_ptr<const RowSource> made;  // view.made; ends before the source
};

/// Whether what a file keeps packed is made at once, or row by row when somebody asks.
enum class MadeRows : uint8_t { at_once, when_asked };

/// Room for `range` of a tensor of `dtype`, all zero. What stays zero costs nothing: its pages are not touched.
TensorPart new_part(const TensorRange& range, DType dtype);

enum class CopyOrder : uint8_t { same, transposed };

/// Puts `from`, or its transpose, into `to.owned` from (row, col) on. REQUIRES one type, and that it fits.
void copy_into(const HostWeight& from, CopyOrder order, TensorPart& to, int64_t row, int64_t col);

/// Threads: const members from any thread (the ranks of one process share a source).
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual std::string label() const = 0;                            // for messages: the folder
  virtual const TensorInfo* find(std::string_view name) const = 0;  // null: no such tensor
  virtual std::vector<std::string> names() const = 0;               // sorted

  /// Any part can be had alone: its values do not depend on how the tensor is cut.
  /// REQUIRES a range inside the tensor. Throws Error(model_file) when the tensor is absent or cannot be read.
  virtual TensorPart part(std::string_view name, const TensorRange& range) const = 0;
  /// The same, with threads of `pool`, if it is given, where there is something to compute. By the thread that may use
  /// the pool.
  virtual TensorPart part_on(ThreadPool* /*pool*/, std::string_view name, const TensorRange& range) const {
    return part(name, range);
  }
  /// The same with rows that are made when they are asked for; without `made`, and nothing computed, where the source
  /// makes no single rows of the tensor: then part() has it.
  virtual TensorPart rows_of(std::string_view /*name*/, const TensorRange& /*range*/) const { return {}; }

  /// Room for `range` of a tensor of `dtype`, with any values: new_part, or that of a part that was recycled. Clearing
  /// fresh pages takes longer than decoding into them. For parts that go back to recycle().
  TensorPart room_for(const TensorRange& range, DType dtype) const;
  /// Takes any part of this source; keeps memory that was lent for room_for, kMostSpareBytes of it at most.
  void recycle(TensorPart part) const;
  static constexpr size_t kMostSpareBytes = size_t{256} << 20;
  size_t spare_bytes() const;

  /// The caller has done with the tensor: memory that only serves reading it is given back. Throws Error(model_file)
  /// when what was read cannot be trusted.
  virtual void release(std::string_view name) const = 0;

 private:
  struct Spare {
    std::mutex mutex;
    std::vector<MappedMemory> parts;
    size_t bytes = 0;  // of them all
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

}  // namespace paceline
