#pragma once
// Ranks on GPUs, over NCCL.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"
#include "kernels/backend.h"

namespace paceline {

/// True when this build has NCCL.
bool has_nccl();
/// Of the library that is loaded, "2.28.3"; empty without NCCL.
std::string nccl_version();

/// This rank's end of a group whose ranks have a CUDA device each. MatViews lie in the memory of `backend`, rows next
/// to each other; their verbs run on its stream and return at once, so that a missing rank shows where `backend` waits
/// (BackendOptions::timeout_s). `control`: the rank's end of a thread group, for what lies in host memory.
/// Small sums go straight into the peers' memory where devices reach it. peers: how long to wait for one to begin, and
/// when to give up. Collective over `control`. Throws Error(comm) with NCCL's words, Error(device) when `backend` is no
/// CUDA backend.
std::unique_ptr<Communicator> make_nccl_comm(std::unique_ptr<Communicator> control, Backend& backend,
                                             const PeerWatch& peers);

/// What a rank keeps to bring messages of `floats` floats of each of `size` ranks together; small ones need less.
constexpr size_t nccl_room_bytes(int64_t floats, int size) { return sizeof(float) * size_t(floats) * size_t(size); }

}  // namespace paceline
