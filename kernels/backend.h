#pragma once
// What a device can do: the op list, whose arguments are in op_args.h. Bottom of the house: no engine header here.
//
// Threads: one Backend belongs to one rank; its ops are called from that rank's thread only, in stream
// order. The CPU backend has completed an op when the call returns.
// Errors: args are checked where data enters (loader, batch builder); ops check shapes in debug builds and
// trust otherwise.
// Numerics: every op obeys `strict`, unless made for `fast` (docs/numerics.md): the bits of a row do not depend on the
// number of rows, batch mix, chunking, page placement or thread count, nor, for TP 1, 2, 4, 8, on the rank count, nor
// on the instruction set.

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/logit_edits.h"
#include "kernels/op_args.h"
#include "kernels/rank_marks.h"
#include "kernels/sampling_types.h"
#include "kernels/work.h"

namespace paceline {

class ThreadPool;

/// Bytes of a packed matrix on a CPU device: whole panels of rows, chunks of k as PanelOrder fills them. With
/// pair_panels this is the size of each part.
size_t packed_bytes(int64_t rows, int64_t k, DType dtype, int k_chunks = kStrictChunks);
/// Bytes that a CUDA device in fast numerics holds beside a packed [n, k]: its rows as they are. 0 where the library
/// that reads them could not, or nobody asks it to.
size_t row_copy_bytes(int64_t n, int64_t k, const PackSpec& spec);

struct MemoryUse {
  size_t weights = 0;  // bytes of packed weights alive
  size_t buffers = 0;  // bytes from alloc() alive
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // e.g. "cpu avx512 2 threads"

  /// Zeroed on first touch, 64-byte aligned, pages touched when first used. Throws Error(device) when memory is out.
  virtual void* alloc(size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  /// Host memory for swap_blocks(), uninitialised. Throws Error(device) when memory is out.
  virtual void* alloc_host(size_t bytes);
  virtual void free_host(void* data) noexcept;
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  virtual void sync() = 0;
  /// Of this backend, for work on host memory between its calls, by the thread that makes those; null: it has none.
  virtual ThreadPool* host_threads() { return nullptr; }

  /// pack() takes rows that are made when they are asked for (HostWeight::made).
  virtual bool packs_made_rows() const { return false; }
  /// Stacks the parts' rows (same cols) into one packed matrix, and looks at each value on the way.
  virtual Weight pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) = 0;

  virtual void gemm(const GemmArgs& args) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void activation(const ActivationArgs& args) = 0;
  virtual void norm_heads(const HeadNormArgs& args) = 0;
  virtual void softcap(const SoftcapArgs& args) = 0;
  virtual void store_kv(const StoreKvArgs& args) = 0;
  virtual void move_kv(const KvView& kv, std::span<const SlotMove> moves) = 0;
  /// Block b of `pages` (from alloc) and block h of `host` (from alloc_host), block_bytes each, as the swaps say, one
  /// after another.
  void swap_blocks(void* pages, void* host, size_t block_bytes, std::span<const BlockSwap> swaps);
  virtual void attention(const AttentionArgs& args) = 0;

  /// Ops that follow each other, and that a device may run as one, with the bits of these. What lies between them
  /// (norm.out, which is gemm.x; the rotated rows) may be left unwritten.
  virtual void norm_gemm(const NormArgs& norm, const GemmArgs& gemm);
  /// The rotated rows are attention's heads of q, then store's heads of k, side by side. rope.rotary_dim 0: no rope.
  /// What a row stores is seen by rows of its own sequence only.
  virtual void rope_attention(const RopeArgs& rope, const StoreKvArgs& store, const AttentionArgs& attention);

  /// In stream order. Without rows nothing is launched.
  virtual void edit_logits(const EditArgs& args) = 0;
  /// Complete when the call returns; with args.later in stream order, as other ops.
  virtual void sample(const SampleArgs& args) = 0;
  virtual void accept(const AcceptArgs& args) = 0;
  virtual void top_k(const TopKArgs& args) = 0;
  /// Calls of the two so far, and: what the first so many have given is complete.
  virtual uint64_t num_draws() const { return 0; }
  virtual void await_draws(uint64_t /*calls*/) {}

  /// body(): a pass, ops and copies of this backend from this thread. A device may remember it and carry it out faster
  /// when its like comes again. key: passes of one key give out the same ops, with other spans, addresses or lengths;
  /// what does not hold costs time only. Throws what body() throws. What AttentionArgs::block spans stays as it is
  /// until body() returns, for calls of the same sequences. kNotRemembered: its like will not come again.
  static constexpr uint64_t kNotRemembered = 0;
  /// A key for passes of `owner` (an address, and what tells its kinds of passes apart) whose sizes are `parts`.
  static uint64_t pass_key(uint64_t owner, std::span<const size_t> parts);
  virtual void run(uint64_t /*key*/, const std::function<void()>& body) { body(); }

  virtual Traffic traffic() const = 0;
  /// The ops between the two calls are a piece of work of `kind`; pieces do not nest. waited_s: of that time, what this
  /// thread spent waiting for other ranks: no work of a device whose ops run on it. (A device with a clock of its own
  /// counts what passes on it, waits of its kernels included.)
  virtual void begin_work(WorkKind kind) = 0;
  virtual void end_work(double waited_s) = 0;
  /// What follows is not at hand: until then the device's time is no piece's. (Its waits for its own work say so
  /// themselves.)
  virtual void pause_work() {}
  /// All pieces that the device has ended: after sync(), all. Never waits.
  virtual Work work(WorkKind kind) = 0;
  virtual MemoryUse memory() const = 0;
  /// CPU seconds that this backend's workers have spent waiting (spinning included) so far.
  virtual double wait_seconds() const = 0;

 private:
  /// A block between memory of alloc and of alloc_host, either way, in stream order; here for devices whose memory is
  /// the host's.
  virtual void copy_block(void* to, const void* from, size_t bytes);
};

/// The first `cols` columns of `rows`, [rows.rows][cols], in host memory.
std::vector<float> download_rows(Backend& backend, const MatView& rows, int64_t cols);

/// fast: the bits of a row may depend on the number of rows where that buys speed (docs/numerics.md). The CPU knows
/// strict only, which costs it nothing.
enum class Numerics : uint8_t { strict, fast };

enum class Isa : uint8_t { scalar, avx2, avx512, avx512_bf16 };
inline constexpr Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_bf16};

/// What the host looks at while it waits for a device, which may work together with others.
struct PeerWatch {
  const std::atomic<bool>* failed = nullptr;  // set: give up. null: no peers
  double timeout_s = 60.0;                    // longest wait; with marks, since the newest of any rank
  RankMarks* marks = nullptr;                 // of the ranks, this one among them
  int rank = 0;                               // whose device it is
};

struct BackendOptions {
  int threads = 1;       // workers of a CPU device, the calling thread included
  bool may_spin = true;  // false when the process owns more threads than cores: waits go to futex at once
  PeerWatch peers{};
  int isa = -1;  // -1: fastest_isa(); else an Isa (tests)
  Numerics numerics = Numerics::strict;
  bool graphs = true;        // a CUDA device may launch passes as graphs
  bool early_starts = true;  // its kernels may start before their predecessors end (false: tests)
};

/// N of "cuda:N", -1 of any other name.
int cuda_index(const std::string& device);

/// device: "cpu" or "cuda:N". Throws Error(device) with the reason when there is no such device.
std::unique_ptr<Backend> make_backend(const std::string& device, const BackendOptions& options);

/// Whether this build has bodies for it, and whether this machine can run them.
bool build_has(Isa isa);
bool machine_has(Isa isa);
/// The best instruction set that both this build and this machine have.
Isa best_isa();
/// What a CPU device runs unless told: the best, but plain AVX-512 on Intel's processors, which multiply pairs of
/// bfloat16 in more time than the two FMAs that stand for them (docs/performance.md).
Isa fastest_isa();
std::string isa_name(Isa isa);

}  // namespace paceline
