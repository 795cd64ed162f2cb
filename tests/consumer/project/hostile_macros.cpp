// SPDX-License-Identifier: Apache-2.0
// Macros of windows.h, X11, glog, torch and others around the door. Third parties come first, since
// it is their business whether they stand this; mpi.h comes before and after.
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))

#include <hvdlite/core/config.hpp>

#if HVDLITE_WITH_MPI
#include <mpi.h>

#include <boost/mpi.hpp>
#endif
#if HVDLITE_WITH_EIGEN
#include <Eigen/Core>
#endif

#define CHECK(x) syntax error
#define LOG(x) syntax error
#define ASSERT(x) syntax error
#define VERIFY(x) syntax error
#define ERROR syntax error
#define WARNING syntax error
#define INFO syntax error
#define DEBUG syntax error
#define FATAL syntax error
#define OK syntax error
#define IN syntax error
#define OUT syntax error
#define I syntax error
#define EMPTY syntax error
#define small char
#define near
#define far
#define interface struct
#define Status int
#define Bool int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define None 0L
#define Unsorted 0
#define TRUE 1
#define FALSE 0
#define major(dev) ((dev) >> 8)
#define minor(dev) ((dev) & 255)

#include <hvdlite/horovod.hpp>
#include <hvdlite/hvdlite.hpp>

#if HVDLITE_WITH_MPI
#include <mpi.h>
#endif

int main(int argc, char** argv) {
  hvdlite::Environment env{argc, argv};
  auto world = env.world();
  float x = 1;
  hvdlite::allreduce(world, x, hvdlite::min{});
  hvdlite::allreduce(world, x, hvdlite::sum{});
  hvdlite::broadcast(world, x);
  return x == static_cast<float>(world.size()) ? 0 : 1;
}
