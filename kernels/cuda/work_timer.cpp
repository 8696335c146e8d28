#include "kernels/cuda/work_timer.h"

#include <utility>

namespace paceline::cuda {

std::unique_ptr<TimedEvent> WorkTimer::take() {
  if (spare_.empty()) return std::make_unique<TimedEvent>();
  std::unique_ptr<TimedEvent> event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

void WorkTimer::begin(WorkKind kind, cudaStream_t stream) {
  open_ = {.kind = kind, .begin = take(), .end = take()};
  open_.begin->record(stream);
}

void WorkTimer::end(cudaStream_t stream) {
  if (!open_.begin) return;
  Piece piece = std::exchange(open_, {});
  piece.end->record(stream);
  ended_.push_back(std::move(piece));
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
    spare_.push_back(std::move(oldest.begin));
    spare_.push_back(std::move(oldest.end));
    ended_.pop_front();
  }
}

}  // namespace paceline::cuda
