#pragma once
// What runs the cells of a load: ranks of this process (engine_host.h), or servers (served_host.h).

#include <cstddef>
#include <memory>
#include <vector>

#include "experiments/results/results.h"
#include "experiments/run/measure/visits.h"
#include "kernels/error.h"

namespace paceline {

class Tokenizer;
struct SweepUnderWay;

/// What an error leaves of this process.
enum class Damage : uint8_t {
  none,
  process,    // a device of the process: not fit for more where another process can go on
  lost_rank,  // likewise, and what stays disturbs what is measured from here on
};

/// Single-threaded. `index` is a cell of the sweep, one of the load. Members throw Error; code device, comm and
/// internal mean that the host is to be told by damage_of().
class CellHost {
 public:
  virtual ~CellHost() = default;

  virtual bool is_open() const = 0;
  /// Makes ready what all cells of the load share.
  virtual void open() = 0;
  /// Seconds that it took so far to make ready what another visit would have to make ready again.
  virtual double ready_s() const = 0;

  /// A pass that is not measured. Fills what is known of a loaded cell (CellResult::load_fields).
  virtual void warm_up(size_t index, const Visit& visit) = 0;
  /// One measured pass.
  virtual RepetitionResult run(size_t index, int repetition) = 0;
  /// Drops what an error of this cell may have broken: is_open() may then be false.
  virtual Damage damage_of(size_t index, ExitCode code) = 0;

  /// Fast numerics: computes logits again where the cell's tokens part. REQUIRES: cells_to_check() names it.
  virtual void check_flips(size_t index) = 0;
  /// Of the target; null: nobody here knows it. REQUIRES: is_open.
  virtual std::shared_ptr<const Tokenizer> tokenizer() = 0;
};

/// For the cells of one load, in plan order; opens nothing.
std::unique_ptr<CellHost> make_host(SweepUnderWay& sweep, const std::vector<size_t>& planned);

}  // namespace paceline
