#include <boost/mpi.hpp>             // a third party that belongs to another file
#include <hvdlite/core/config.hpp>   // down: fine
#include <hvdlite/data/sampler.hpp>  // sideways
#include <vector>                    // fine
