#include "kernels/cuda/work_timer.h"

#include <utility>

namespace paceline::cuda {

WorkTimer::Mark WorkTimer::record(cudaStream_t stream) {
  Mark mark;
  if (spare_.empty()) {
    mark = std::make_shared<TimedEvent>();
  } else {
    mark = std::move(spare_.back());
    spare_.pop_back();
  }
  mark->record(stream);
  return mark;
}

void WorkTimer::give_back(Mark mark) {
  if (mark.use_count() == 1) spare_.push_back(std::move(mark));
}

void WorkTimer::begin(WorkKind kind, cudaStream_t stream) {
  is_waiting_ = false;
  if (std::exchange(is_over_, false)) {
    if (open_.kind == kind) return;
    open_.end = record(stream);
    ended_.push_back(open_);
    open_ = {.kind = kind, .begin = std::move(open_.end), .end = nullptr};
    return;
  }
  open_ = {.kind = kind, .begin = nullptr, .end = nullptr};
  is_waiting_ = true;
}

void WorkTimer::pause(cudaStream_t stream) {
  if (!open_.begin) return;
  is_waiting_ = !std::exchange(is_over_, false);
  open_.end = record(stream);
  ended_.push_back(std::exchange(open_, {.kind = open_.kind, .begin = nullptr, .end = nullptr}));
}

void WorkTimer::go_on(cudaStream_t stream) {
  is_waiting_ = false;
  open_.begin = record(stream);
}

void WorkTimer::collect(WorkLedger& ledger) {
  while (!ended_.empty()) {
    Piece& oldest = ended_.front();
    const cudaError_t status = cudaEventQuery(oldest.end->event);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // it is kept as an error, and is none
      return;
    }
    check(status, "cudaEventQuery");
    ledger.add_seconds(oldest.kind, seconds_between(*oldest.begin, *oldest.end));
    give_back(std::move(oldest.begin));
    give_back(std::move(oldest.end));
    ended_.pop_front();
  }
}

}  // namespace paceline::cuda
