#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/edit_logits.h"
#include "kernels/math/edit.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 512;

struct Call {
  const EditRow* row;
  const TokenEdit* edit;
  const uint32_t* mask;
  int32_t words_of_mask, vocab_size;
};

__global__ void __launch_bounds__(kThreads) edit_kernel(float* logits, int64_t stride, const Call call) {
  launch_dependents();
  wait_for_predecessor();
  const EditRow row = call.row[blockIdx.x];
  float* const logit = logits + int64_t{row.logits_row} * stride;
  if (row.mask >= 0) {
    const uint32_t* const mask = call.mask + int64_t{row.mask} * call.words_of_mask;
    for (int32_t token = threadIdx.x; token < call.vocab_size; token += kThreads)
      if (!math::is_allowed(mask, token)) logit[token] = -INFINITY;
    __syncthreads();
  }
  const auto apply = [&](const TokenEdit& edit) {
    if (edit.token < call.vocab_size) logit[edit.token] = math::edited(logit[edit.token], edit);
  };
  const TokenEdit* const own = call.edit + row.first_own;
  for (int32_t i = threadIdx.x; i < row.num_shared; i += kThreads) {  // tokens differ: no two threads meet
    const TokenEdit edit = call.edit[row.first_shared + i];
    if (!math::has_edit_of(own, row.num_own, edit.token)) apply(edit);
  }
  for (int32_t i = threadIdx.x; i < row.num_own; i += kThreads) apply(own[i]);
}

}  // namespace

void edit_logits(const EditArgs& args, LaunchTo queue) {
  const Call call{.row = args.rows.data(),
                  .edit = args.edits.data(),
                  .mask = args.masks.data(),
                  .words_of_mask = args.words_of_mask,
                  .vocab_size = args.vocab_size};
  launch(edit_kernel, dim3(unsigned(args.rows.size())), dim3(kThreads), 0, queue, args.logits.f32_row(0),
         args.logits.stride, call);
}

}  // namespace paceline::cuda
