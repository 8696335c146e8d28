// Linked when Paceline is built without CUDA or without NCCL.

#include "engine/comm/nccl_comm.h"

namespace paceline {

bool has_nccl() { return false; }
std::string nccl_version() { return ""; }

std::unique_ptr<Communicator> make_nccl_comm(std::unique_ptr<Communicator>, Backend&, const PeerWatch&) {
  fail(ExitCode::comm, "several ranks on GPUs need NCCL, and this build has none; install libnccl-dev and build again");
}

}  // namespace paceline
