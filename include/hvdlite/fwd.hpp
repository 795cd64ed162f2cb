// SPDX-License-Identifier: Apache-2.0
// Declarations only, for headers that specialise hvdlite::tensor_traits or pass handles on without
// needing the library: cheap to include.
#pragma once

namespace hvdlite {

struct host_space;
struct cuda_space;
class float16;
class bfloat16;

template <class X>
struct tensor_traits;
template <class Opt>
struct optimizer_traits;

class Environment;

}  // namespace hvdlite
