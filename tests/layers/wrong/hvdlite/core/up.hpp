#include <hvdlite/tensor/buffer.hpp>  // up
#include <hvdlite/hvdlite.hpp>        // up to the door
#include "config.hpp"                 // not by its full name
