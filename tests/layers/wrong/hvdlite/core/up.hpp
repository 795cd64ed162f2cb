#include <hvdlite/hvdlite.hpp>        // up to the door
#include <hvdlite/tensor/buffer.hpp>  // up
#include "config.hpp"                 // not by its full name
