#include "engine/comm/nccl_comm.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <nccl.h>
#include <thread>

#include <spdlog/spdlog.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/push_sum.h"
#include "kernels/cuda/staging.h"
#include "kernels/cuda/stream_wait.h"
#include "kernels/cuda/sum_parts.h"

namespace paceline {
namespace {

using cuda::DeviceMemory;

/// What one rank has opened: its communicators of all groups. Any thread may abort.
class Opened {
 public:
  ~Opened() { abort(); }  // what a constructor that threw has left
  const int* given_up() const { return given_up_.as<int>(); }

  void add(ncclComm_t comm) {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) {
        comms_.push_back(comm);
        return;
      }
    }
    ncclCommAbort(comm);
  }
  void close(ncclComm_t comm) noexcept {
    const std::lock_guard lock(mutex_);
    if (std::erase(comms_, comm) > 0) ncclCommDestroy(comm);
  }
  void abort() noexcept {
    std::vector<ncclComm_t> comms;
    {
      const std::lock_guard lock(mutex_);
      aborted_ = true;
      comms.swap(comms_);
    }
    std::atomic_ref<int>(*given_up_.as<int>()).store(1);
    try {  // at once: a kernel of one may keep the device from another's end
      std::vector<std::jthread> threads;
      threads.reserve(comms.size());
      while (!comms.empty()) {
        threads.emplace_back([comm = comms.back()] { ncclCommAbort(comm); });
        comms.pop_back();
      }
    } catch (...) {  // no threads left
      for (ncclComm_t comm : comms) ncclCommAbort(comm);
    }
  }
  bool aborted() const {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }
  /// What `call` says, while nobody can abort; ncclInvalidUsage after abort().
  template <class Call>
  ncclResult_t run(Call&& call) const {
    const std::lock_guard lock(mutex_);
    return aborted_ ? ncclInvalidUsage : call();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<ncclComm_t> comms_;
  bool aborted_ = false;
  cuda::HostMemory given_up_{sizeof(int)};
};

/// The rooms of all ranks; null where two devices cannot write to each other's memory.
class Pushers {
 public:
  static std::unique_ptr<Pushers> join(Communicator& control, const CudaStream& stream, const int* given_up) {
    if (control.size() > cuda::kMostPushers) return nullptr;
    struct Entry {
      int device = 0;
      const std::shared_ptr<cuda::PushRoom>* room = nullptr;
    };
    // peers read it through a pointer: when something fails meanwhile, it is left to them
    auto mine = std::make_unique<std::shared_ptr<cuda::PushRoom>>(
        std::make_shared<cuda::PushRoom>(control.size(), stream.stream));
    auto pushers = std::make_unique<Pushers>();
    bool all_reach = true;
    try {
      bool reaches_all = true;
      for (const Entry& peer : exchange(control, Entry{stream.device, mine.get()})) {
        const size_t rank = pushers->rooms_.size();
        pushers->group_.room[rank] = (*peer.room)->pairs();
        pushers->group_.columns[rank] = (*peer.room)->columns();
        pushers->group_.marks[rank] = (*peer.room)->marks();
        pushers->rooms_.push_back(*peer.room);
        if (peer.room != mine.get()) reaches_all = reaches(stream.device, peer.device) && reaches_all;
      }
      for (const int peer_reaches : exchange(control, int(reaches_all))) all_reach = all_reach && peer_reaches != 0;
    } catch (...) {
      static_cast<void>(mine.release());
      throw;
    }
    pushers->group_.rank = control.rank();
    pushers->group_.size = control.size();
    pushers->group_.given_up = given_up;
    return all_reach ? std::move(pushers) : nullptr;
  }

  void sum(const MatView& x, int64_t count, cuda::LaunchTo queue) {
    cuda::push_sum(x.f32_row(0), count, next_message(), group_, queue);
  }
  PeerSum next_sum() { return {.group = group_, .message = next_message()}; }
  void gather(const MatView& part, const MatView& out, int root, cuda::LaunchTo queue) {
    cuda::push_columns(part, out, root, ++gathers_[size_t(root)], group_, queue);
  }

 private:
  /// Never 0, which stands where nothing was written; odd and even ones alternate.
  uint32_t next_message() {
    if (++message_ == 0) message_ = 2;
    return message_;
  }
  /// True when kernels of `from` may now write to memory of `to`.
  static bool reaches(int from, int to) {
    int can = 0;
    if (from == to || cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || !can) return false;
    const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess || status == cudaErrorPeerAccessAlreadyEnabled;
  }

  template <class T>
  static std::vector<T> exchange(Communicator& control, const T& mine) {
    std::vector<T> all(size_t(control.size()));
    for (int root = 0; root < control.size(); ++root) {
      std::vector<std::byte> message(sizeof(T));
      std::memcpy(message.data(), &mine, sizeof(T));
      control.broadcast(message, root);
      std::memcpy(&all[size_t(root)], message.data(), sizeof(T));
    }
    return all;
  }

  std::vector<std::shared_ptr<cuda::PushRoom>> rooms_;  // peers may still write where a rank has left
  cuda::PushGroup group_;
  uint32_t message_ = 0;
  std::array<uint32_t, cuda::kMostPushers> gathers_{};  // by root
};

class NcclComm final : public Communicator {
 public:
  NcclComm(std::unique_ptr<Communicator> control, Backend& backend, const PeerWatch& peers,
           std::shared_ptr<Opened> opened)
      : control_(std::move(control)),
        backend_(backend),
        device_(cuda_stream(backend).device),
        peers_(peers),
        opened_(std::move(opened)) {
    if (size() == 1) return;
    PACELINE_CHECK(size() <= cuda::kMaxParts, "{} ranks, at most {}", size(), cuda::kMaxParts);
    cuda::check(cudaSetDevice(device_), "cudaSetDevice");
    ncclUniqueId id{};
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::vector<std::byte> message(sizeof(id));
    std::memcpy(message.data(), &id, sizeof(id));
    control_->broadcast(message, 0);
    std::memcpy(&id, message.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // a rank that stays away must not hold this thread inside NCCL
    const ncclResult_t begun = ncclCommInitRankConfig(&comm_, size(), id, rank(), &config);
    if (comm_) opened_->add(comm_);
    check(begun, "ncclCommInitRankConfig");
    pushers_ = Pushers::join(*control_, cuda_stream(backend_), opened_->given_up());
    if (!pushers_ && rank() == 0)
      spdlog::warn(
          "GPUs do not reach each other's memory (is NCCL_P2P_DISABLE set, or a switch between them?): sums go "
          "through NCCL");
  }
  ~NcclComm() override {
    if (comm_) opened_->close(comm_);
  }

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }

  void all_reduce(const MatView& x) override {
    if (size() == 1 || x.rows == 0) return;
    const size_t count = begin("all_reduce", x);
    if (pushers_ && int64_t(count) <= cuda::kPushFloats) return pushers_->sum(x, int64_t(count), queue());
    float* const parts = room(count * size_t(size()));
    const cuda::LaunchTo to = queue();
    check(opened_->run([&] { return ncclAllGather(x.data, parts, count, ncclFloat32, comm_, to.stream); }),
          "ncclAllGather");
    cuda::sum_parts(parts, size(), int64_t(count), x.f32_row(0), to);
  }

  const PeerSum* next_sum(const MatView& x) override {
    const bool fits =
        pushers_ && x.cols % 4 == 0 && x.cols <= cuda::kMaxSummedCols && int64_t{x.rows} * x.cols <= cuda::kPushFloats;
    if (!fits || x.rows == 0) return nullptr;
    begin("all_reduce", x);
    return &(sum_ = pushers_->next_sum());
  }

  void gather_columns(const MatView& part, const MatView& out, int root) override {
    if (part.rows == 0) return;
    const size_t count = begin("gather_columns", part);
    if (pushers_ && int64_t(count) <= cuda::kPushColumns) return pushers_->gather(part, out, root, queue());
    const bool gathers = rank() == root;
    float* const parts = gathers ? room(count * size_t(size())) : nullptr;
    const cudaStream_t to = stream();
    check(opened_->run([&] {
      ncclResult_t status = ncclGroupStart();
      const auto add = [&](ncclResult_t added) { status = status == ncclSuccess ? added : status; };
      if (!gathers) add(ncclSend(part.data, count, ncclFloat32, root, comm_, to));
      for (int peer = 0; gathers && peer < size(); ++peer)
        if (peer != root) add(ncclRecv(parts + count * size_t(peer), count, ncclFloat32, peer, comm_, to));
      const ncclResult_t ended = ncclGroupEnd();
      add(ended);
      return status;
    }),
          "gather");
    const size_t row_bytes = size_t(part.cols) * sizeof(float);
    for (int peer = 0; gathers && peer < size(); ++peer)
      cuda::check(cudaMemcpy2DAsync(out.f32_row(0) + int64_t{peer} * part.cols, size_t(out.stride) * sizeof(float),
                                    peer == root ? part.f32_row(0) : parts + count * size_t(peer), row_bytes, row_bytes,
                                    size_t(part.rows), cudaMemcpyDeviceToDevice, to),
                  "cudaMemcpy2DAsync");
  }

  void send(const MatView& x, int peer) override {
    const size_t count = begin("send", x);
    const cudaStream_t to = stream();
    check(opened_->run([&] { return ncclSend(x.data, count, ncclFloat32, peer, comm_, to); }), "ncclSend");
  }
  void recv(const MatView& x, int peer) override {
    const size_t count = begin("recv", x);
    const cudaStream_t to = stream();
    check(opened_->run([&] { return ncclRecv(x.data, count, ncclFloat32, peer, comm_, to); }), "ncclRecv");
  }

  void broadcast(std::vector<std::byte>& message, int root) override { control_->broadcast(message, root); }
  void barrier() override { control_->barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<NcclComm>(control_->split(color, key), backend_, peers_, opened_);
  }
  void abort(const std::string& reason) noexcept override {
    control_->abort(reason);
    opened_->abort();
  }
  CommStats stats() const override {
    CommStats stats = control_->stats();
    stats.collectives += collectives_;
    stats.bytes += bytes_;
    return stats;
  }

 private:
  /// Waits until NCCL has taken the call.
  void check(ncclResult_t status, const char* what) const {
    if (status == ncclInProgress) status = wait_until_taken(what);
    if (status == ncclSuccess) return;
    if (opened_->aborted()) fail(ExitCode::comm, "rank {}: {} given up: another rank failed", rank(), what);
    fail(ExitCode::comm, "rank {}: {} failed: {} ({})", rank(), what, ncclGetErrorString(status),
         ncclGetLastError(nullptr));
  }
  /// For whom, NCCL does not say.
  ncclResult_t wait_until_taken(const char* what) const {
    const cuda::PeerWait wait(peers_);
    ncclResult_t status = ncclInProgress;
    while (status == ncclInProgress) {
      if (peers_.failed && peers_.failed->load(std::memory_order_acquire)) opened_->abort();
      if (wait.is_over()) fail(ExitCode::comm, "rank {}: {} waited for other ranks; {}", rank(), what, wait.story());
      status = opened_->run([&] {
        ncclResult_t state = ncclInvalidUsage;
        ncclCommGetAsyncError(comm_, &state);
        return state;
      });
    }
    return status;
  }
  /// Floats of x.
  size_t begin(const char* what, const MatView& x) {
    const size_t count = message_floats(what, x);
    if (opened_->aborted()) fail(ExitCode::comm, "rank {}: {} given up: another rank failed", rank(), what);
    cuda::check(cudaSetDevice(device_), "cudaSetDevice");
    ++collectives_;
    bytes_ += count * sizeof(float);
    return count;
  }
  /// Behind all that the backend has given out, which is sent by then; not for calls under opened_'s lock.
  cudaStream_t stream() const { return cuda_stream(backend_).stream; }
  /// The same for a kernel.
  cuda::LaunchTo queue() const {
    const CudaStream to = cuda_stream(backend_);
    return {to.stream, to.early_starts};
  }
  float* room(size_t floats) {
    if (parts_.bytes() < floats * sizeof(float)) {
      cuda::wait_for_work(stream(), device_, peers_);
      parts_ = DeviceMemory();
      parts_ = DeviceMemory(floats * sizeof(float), stream());
    }
    return parts_.as<float>();
  }

  std::unique_ptr<Communicator> control_;
  Backend& backend_;
  const int device_;
  const PeerWatch peers_;
  std::shared_ptr<Opened> opened_;
  std::unique_ptr<Pushers> pushers_;
  PeerSum sum_;
  ncclComm_t comm_ = nullptr;
  DeviceMemory parts_;  // of all ranks
  uint64_t collectives_ = 0, bytes_ = 0;
};

}  // namespace

bool has_nccl() { return true; }

std::string nccl_version() {
  int version = 0;  // 10000 · major + 100 · minor + patch, since 2.9
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::unique_ptr<Communicator> make_nccl_comm(std::unique_ptr<Communicator> control, Backend& backend,
                                             const PeerWatch& peers) {
  if (!cuda_stream(backend).stream)
    fail(ExitCode::device, "device {}: NCCL joins CUDA devices only", backend.describe());
  return std::make_unique<NcclComm>(std::move(control), backend, peers, std::make_shared<Opened>());
}

}  // namespace paceline
