#include "engine/weights/safetensors.h"

#include <cstring>
#include <string_view>

#include "engine/weights/safetensors_header.h"

namespace paceline {
namespace {

constexpr uint64_t kLengthBytes = 8;

uint64_t little_endian_u64(const std::byte* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= uint64_t(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

std::string TensorInfo::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string foreign_format_hint(std::span<const std::byte> bytes) {
  const auto starts_with = [&](std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (starts_with("GGUF")) return kGgufRefused;
  // torch.save writes a zip; older ones a bare pickle: protocol opcode 0x80, version 2 to 5.
  if (starts_with("PK\x03\x04") || (bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} &&
                                    bytes[1] <= std::byte{5} && !(bytes.size() >= 9 && bytes[8] == std::byte{'{'})))
    return kPickleRefused;
  if (starts_with("version https://git-lfs")) return "this is a Git LFS pointer, not the file; run `git lfs pull`";
  return "";
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string source = path.string();
  if (const std::string hint = foreign_format_hint(bytes); !hint.empty())
    fail(ExitCode::model_file, "{}: {}", source, hint);
  if (bytes.size() < kLengthBytes)
    fail(ExitCode::model_file, "{}: header length: need {} bytes, file has {}", source, kLengthBytes, bytes.size());
  const uint64_t header_bytes = little_endian_u64(bytes.data());
  if (header_bytes > kMaxSafetensorsHeader)
    fail(ExitCode::model_file, "{}: header length {} is more than the format's limit of {}", source, header_bytes,
         kMaxSafetensorsHeader);
  if (header_bytes > bytes.size() - kLengthBytes)
    fail(ExitCode::model_file, "{}: header length {} is more than the {} bytes that follow it: truncated", source,
         header_bytes, bytes.size() - kLengthBytes);
  const uint64_t data_begin = kLengthBytes + header_bytes;
  const auto* header = reinterpret_cast<const char*>(bytes.data() + kLengthBytes);
  tensors_ = parse_safetensors_header({header, header_bytes}, source, bytes.size() - data_begin, kLengthBytes);
  for (TensorInfo& tensor : tensors_) tensor.offset += data_begin;
}

}  // namespace paceline
