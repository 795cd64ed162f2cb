#include <hdf5/hdf5.h>  // a third party that nobody may include
#include <sys/mman.h>   // fine
