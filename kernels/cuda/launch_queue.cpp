#include "kernels/cuda/launch_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <utility>

namespace paceline::cuda {

LaunchQueue::LaunchQueue(LaunchModes modes, std::function<void()> wait, std::function<void()> before_sending)
    : modes_(modes), ring_(straight(), std::move(wait)), before_sending_(std::move(before_sending)) {}

LaunchTo LaunchQueue::to() {
  LaunchTo to = straight();
  if (!is_listing_) {
    now();
    return to;
  }
  if (num_sent_ == 0 && list_.size() >= kFirstList) send_list();
  to.list = &list_;
  return to;
}

cudaStream_t LaunchQueue::now() {
  before_sending_();
  return sent();
}

cudaStream_t LaunchQueue::sent() {
  if (is_listing_)
    send_list();
  else
    ring_.flush();
  return stream_.stream;
}

void LaunchQueue::send_list() {
  if (list_.size() == 0 && put_ == used_) return;
  before_sending_();
  struct Clear {
    LaunchList& list;
    ~Clear() { list.clear(); }  // what failed to go is not sent again
  } const clear{list_};
  LaunchTo head = straight();
  head.list = &list_;
  for (head.ahead_of = 0; put_ < used_; put_ += kMostPutBytes, ++head.ahead_of)
    put_over(pass_memory_.as<char>() + put_, pass_bytes_.data() + put_, head);
  put_ = used_;
  if (num_sent_ < kLists)
    graphs_.launch(key_ + num_sent_, list_, straight());
  else
    launch_all(list_, straight());
  ++num_sent_;
}

void LaunchQueue::reserve(size_t bytes, size_t pieces) {
  reserved_ = {.bytes = bytes, .pieces = pieces};
  if (!is_listing_) ring_.reserve(bytes, pieces);
}

void* LaunchQueue::stage(const void* host, size_t bytes) {
  if (!is_listing_) return ring_.stage(host, bytes);
  for (const Piece& piece : pieces_)
    if (piece.bytes == bytes && std::memcmp(pass_bytes_.data() + piece.at, host, bytes) == 0)
      return pass_memory_.as<char>() + piece.at;
  const size_t taken = std::bit_ceil(std::max(bytes, kFewestBytes));
  if (used_ + taken > kPassBytes) {
    end_pass();
    ring_.reserve(reserved_.bytes, reserved_.pieces);
    return ring_.stage(host, bytes);
  }
  const size_t at = std::exchange(used_, used_ + taken);
  if (bytes > 0) std::memcpy(pass_bytes_.data() + at, host, bytes);
  if (bytes > 0) pieces_.push_back({.bytes = bytes, .at = at});
  return pass_memory_.as<char>() + at;
}

void LaunchQueue::put_words(int32_t* to, std::span<const WordAt> words, bool leads) {
  LaunchTo queue = this->to();
  if (leads) queue.ahead_of = 0;
  cuda::put_words(to, words, queue);
}

void LaunchQueue::send(void* to, const void* host, size_t bytes) {
  constexpr size_t kPieceBytes = StagingRing::kBytes / 8;
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, bytes - at);
    const void* const from = ring_.stage(static_cast<const char*>(host) + at, count);
    const cudaStream_t stream = now();
    ring_.flush();
    check(cudaMemcpyAsync(static_cast<char*>(to) + at, from, count, cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
  }
}

void LaunchQueue::run_pass(uint64_t key, const std::function<void()>& body) {
  if (!modes_.graphs || is_listing_) return body();
  sent();
  if (pass_bytes_.empty()) {
    constexpr size_t kBytes = kPassBytes + kMostPutBytes;  // what is sent at once may begin at the end
    pass_memory_ = DeviceMemory(kBytes, stream_.stream);
    pass_bytes_.resize(kBytes);
  }
  is_listing_ = true;
  key_ = key;
  num_sent_ = used_ = put_ = 0;
  pieces_.clear();
  reserved_ = {};
  std::exception_ptr failure;
  const auto guard = [&](auto&& call) {
    try {
      call();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  guard(body);
  guard([this] { end_pass(); });  // what was given out goes, as it would outside of a pass
  if (failure) std::rethrow_exception(failure);
}

void LaunchQueue::end_pass() {
  if (std::exchange(is_listing_, false)) send_list();
}

}  // namespace paceline::cuda
