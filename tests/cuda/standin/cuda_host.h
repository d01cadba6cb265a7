// Lets g++ compile generated CUDA C++ for the stand-in driver: `g++ -std=c++20 -include cuda_host.h -x c++ kernels.cu`.
#pragma once

#define XLAC_ON_HOST 1

#include "engine/engine.h"
#include "host/types.h"
#include "host/threads.h"
#include "host/functions.h"
#include "host/atomics.h"
#include "host/instructions.h"
#include "host/copy_engine.h"
#include "host/entry.h"
