// SPDX-License-Identifier: Apache-2.0
// Reads the images: digits.csv.gz (64 pixels and a label a line) or a folder with the four IDX
// files of MNIST, plain or gzipped. What cannot be read is an exception that names the file.
#pragma once

#include <zlib.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mlp.hpp"

namespace digits {

/// Images, a row each, and what they show.
struct Set {
  Images images;
  Labels labels;
};
struct Data {
  Set train, test;
};

[[noreturn]] inline void fail(const std::filesystem::path& file, const std::string& what) {
  throw std::runtime_error{"'" + file.string() + "': " + what};
}

/// The whole file; zlib reads plain files as they are.
inline std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail(path, "no such file");
  if (std::filesystem::is_directory(status)) fail(path, "is a folder, expected a file");
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) fail(path, "cannot be opened");
  std::string content;
  std::vector<char> chunk(std::size_t{1} << 16);
  int got = 0;
  while ((got = gzread(file, chunk.data(), unsigned(chunk.size()))) > 0)
    content.append(chunk.data(), std::size_t(got));
  // A file that ends too early shows up as Z_BUF_ERROR when it is closed, and only then.
  if (gzclose_r(file) != Z_OK || got < 0) fail(path, "cannot be read to its end, is it damaged?");
  return content;
}

/// 1,797 lines of 64 pixels (0 to 16) and a label. Lines 1, 6, 11 ... are the test set: 360 rows,
/// and 1,437 to train. (People wrote in turns, so the last 360 would be the hands of strangers.)
inline Data read_csv(const std::filesystem::path& path) {
  constexpr Eigen::Index pixels = 64;
  const std::string content = read_file(path);
  std::vector<int> values;
  std::size_t line = 0;
  for (const char *at = content.data(), *end = at + content.size(); at != end;) {
    ++line;
    for (Eigen::Index column = 0; column <= pixels; ++column) {
      const char separator = column < pixels ? ',' : '\n';
      int value = 0;
      const auto [next, failure] = std::from_chars(at, end, value);
      const int largest = column < pixels ? 16 : int(classes) - 1;
      if (failure != std::errc{} || value < 0 || value > largest ||
          (next != end && *next != separator) || (next == end && column < pixels))
        fail(path, "line " + std::to_string(line) + ", column " + std::to_string(column + 1) +
                       ": expected 64 pixels from 0 to 16 and a label from 0 to 9");
      values.push_back(value);
      at = next == end ? end : next + 1;
    }
  }
  if (line < 2) fail(path, "expected at least two lines");
  using Table = Eigen::Matrix<int, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Table> table{values.data(), Eigen::Index(line), pixels + 1};
  std::vector<Eigen::Index> train, test;
  for (Eigen::Index row = 0; row < table.rows(); ++row)
    (row % 5 == 0 ? test : train).push_back(row);
  const auto pick = [&](const std::vector<Eigen::Index>& rows) {
    // 0 to 2, not to 1 as in MNIST: with 64 pixels instead of 784 one learning rate then fits both.
    return Set{table(rows, Eigen::seqN(0, pixels)).cast<float>() / 8.0f, table(rows, pixels)};
  };
  return {pick(train), pick(test)};
}

/// IDX: two zero bytes, 8 for bytes, the number of dimensions, each as 32 bits with the highest
/// byte first, then the bytes. Gives the number of items and the bytes that follow.
inline std::pair<Eigen::Index, std::string> read_idx(std::filesystem::path path,
                                                     std::size_t dimensions) {
  if (!std::filesystem::exists(path)) {
    auto zipped = path;
    if (std::filesystem::exists(zipped += ".gz")) path = zipped;
  }
  std::string content = read_file(path);
  const std::size_t header = 4 + 4 * dimensions;
  const std::string_view magic{"\0\0\x08", 3};
  if (content.size() < header || !content.starts_with(magic) ||
      std::size_t(content[3]) != dimensions)
    fail(path, "is no IDX file of bytes in " + std::to_string(dimensions) + " dimension(s)");
  std::uint64_t items = 0, bytes = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::uint64_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i)
      extent = extent << 8 | std::uint64_t(static_cast<unsigned char>(content[4 + 4 * d + i]));
    if (d == 0) items = extent;
    bytes *= extent;
  }
  content.erase(0, header);
  if (items == 0 || bytes != content.size())
    fail(path, "holds " + std::to_string(content.size()) + " bytes, its header says " +
                   std::to_string(bytes));
  return {Eigen::Index(items), std::move(content)};
}

inline Set read_mnist(const std::filesystem::path& folder, const std::string& prefix) {
  const auto image_path = folder / (prefix + "-images-idx3-ubyte");
  const auto label_path = folder / (prefix + "-labels-idx1-ubyte");
  const auto [items, pixels] = read_idx(image_path, 3);
  const auto [labelled, labels] = read_idx(label_path, 1);
  if (items != labelled)
    fail(label_path, std::to_string(labelled) + " labels for " + std::to_string(items) + " images");
  using Bytes = Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto bytes = [](const std::string& s, Eigen::Index rows) {
    return Eigen::Map<const Bytes>{reinterpret_cast<const std::uint8_t*>(s.data()), rows,
                                   Eigen::Index(s.size()) / rows};
  };
  Set set{bytes(pixels, items).cast<float>() / 255.0f, bytes(labels, items).cast<int>()};
  if (set.labels.maxCoeff() >= classes) fail(label_path, "a label is larger than 9");
  return set;
}

/// `path` is a CSV file like digits.csv.gz or the folder of MNIST. The pixels are centred: the mean
/// of those to train with is 0.
inline Data load(const std::filesystem::path& path) {
  Data data = std::filesystem::is_directory(path)
                  ? Data{read_mnist(path, "train"), read_mnist(path, "t10k")}
                  : read_csv(path);
  if (data.train.images.cols() != data.test.images.cols())
    fail(path, "the images to train and to test have different sizes");
  const auto mean = float(data.train.images.cast<double>().mean());
  data.train.images.array() -= mean;
  data.test.images.array() -= mean;
  return data;
}

}  // namespace digits
