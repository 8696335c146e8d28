#include "experiments/report/html/gzip.h"

#include <zlib.h>

#include "kernels/error.h"

namespace paceline {

std::string gzip(std::string_view bytes) {
  constexpr int kWindowBits = 15, kGzipHeader = 16, kMemoryLevel = 8;
  z_stream stream{};
  const int begun = deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits + kGzipHeader, kMemoryLevel,
                                 Z_DEFAULT_STRATEGY);
  PACELINE_CHECK(begun == Z_OK, "zlib {}", begun);
  std::string out(deflateBound(&stream, uLong(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = uInt(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  PACELINE_CHECK(status == Z_STREAM_END, "zlib {}, {} of {} bytes", status, stream.total_in, bytes.size());
  return out;
}

}  // namespace paceline
