// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a tensor live. A type, not a value: the space is part of a tensor's type, and
// with it the choice of backend.
#pragma once

#include <concepts>
#include <string_view>

namespace hvdlite {

/// Memory that the CPU reads and writes.
struct host_space {
  static constexpr std::string_view name = "host";
};

/// Memory of a CUDA device.
struct cuda_space {
  static constexpr std::string_view name = "cuda";
};

template <class S>
concept memory_space = std::same_as<S, host_space> || std::same_as<S, cuda_space>;

}  // namespace hvdlite
