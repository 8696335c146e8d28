#include "engine/tokenizer/bpe.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Ids = std::vector<int32_t>;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  int32_t operator()(int32_t below) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(below));
  }

 private:
  uint64_t state_;
};

/// The definition: the leftmost pair of the lowest rank is joined, as long as there is one.
Ids joined(Ids ids, const std::vector<Bpe::Merge>& merges) {
  for (;;) {
    const Bpe::Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (const Bpe::Merge& merge : merges) {
        if (merge.left != ids[i] || merge.right != ids[i + 1]) continue;
        if (best == nullptr || merge.rank < best->rank) best = &merge, at = i;
      }
    }
    if (best == nullptr) return ids;
    ids[at] = best->merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, JoinsAsDefinedWhateverTheLengthOfThePiece) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    Bpe::Options options;
    options.byte_ids.fill(-1);
    for (int32_t byte = 0; byte < 3; ++byte) options.byte_ids[static_cast<size_t>('a' + byte)] = byte;
    std::vector<Bpe::Merge> merges;
    int32_t num_ids = 3;
    for (int32_t i = 0; i < 12; ++i) {
      const Bpe::Merge merge{random(num_ids), random(num_ids), num_ids, random(4)};  // ranks repeat
      const bool is_known = std::any_of(merges.begin(), merges.end(), [&](const Bpe::Merge& other) {
        return other.left == merge.left && other.right == merge.right;
      });
      if (is_known) continue;
      merges.push_back(merge);
      ++num_ids;
    }
    const Bpe bpe(merges, options);
    BpeScratch scratch;
    for (const int32_t length : {1, 2, 7, 31, 32, 33, 60}) {
      std::string piece;
      Ids symbols;
      for (int32_t i = 0; i < length; ++i) {
        symbols.push_back(random(3));
        piece += static_cast<char>('a' + symbols.back());
      }
      Ids ids;
      bpe.encode(piece, scratch, ids);
      ASSERT_EQ(ids, joined(symbols, merges)) << seed << ": " << piece;
    }
  }
}

TEST(Bpe, CharactersWithoutAnIdAreBytesOrUnknown) {
  Bpe::Options options;
  options.byte_ids.fill(-1);
  options.char_ids = {{U'a', 0}, {U'é', 1}};
  const auto encode = [&](std::string_view piece) {
    BpeScratch scratch;
    Ids ids;
    Bpe({{0, 1, 9, 0}}, options).encode(piece, scratch, ids);
    return ids;
  };
  EXPECT_EQ(encode("aéßa"), (Ids{9, 0})) << "dropped";
  options.unknown_id = 5;
  EXPECT_EQ(encode("aßßa"), (Ids{0, 5, 5, 0}));
  options.fuse_unknown = true;
  EXPECT_EQ(encode("aßßa"), (Ids{0, 5, 0}));
  options.byte_ids[0xC3] = 100;
  EXPECT_EQ(encode("aßa"), (Ids{0, 5, 0})) << "one of its two bytes has no id";
  options.byte_ids[0x9F] = 101;
  EXPECT_EQ(encode("aßa"), (Ids{0, 100, 101, 0}));
}

}  // namespace
}  // namespace paceline
