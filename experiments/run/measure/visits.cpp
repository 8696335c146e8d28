#include "experiments/run/measure/visits.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace paceline {

int Visit::until(int repetitions) const {
  const int share = repetitions / 2;
  const int ways = way + (stay == Stay::turn ? 2 : 1);
  return share == 0 || stay == Stay::end || ways >= kNumWays ? repetitions : ways * share;
}

void visit_loads(size_t num_loads, const std::function<bool(size_t load, const Visit& visit)>& run) {
  std::vector<size_t> left(num_loads);
  std::iota(left.begin(), left.end(), size_t{0});
  for (int way = 0; way < kNumWays && !left.empty(); ++way) {
    std::vector<size_t> again;
    for (const size_t load : left) {
      const bool is_turn = load == left.back();
      const bool is_alone = is_turn && again.empty();
      if (run(load, {.way = way, .stay = is_alone ? Visit::Stay::end : is_turn ? Visit::Stay::turn : Visit::Stay::way}))
        again.push_back(load);
    }
    std::reverse(again.begin(), again.end());
    left = std::move(again);
  }
}

}  // namespace paceline
