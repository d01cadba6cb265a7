// While a kernel runs, faults of the processor are the kernel's.
#pragma once

#include <csignal>

namespace standin {

// In force as long as it lives.
class Signals {
  public:
    Signals();
    ~Signals();

  private:
    stack_t kept{};
};

}  // namespace standin
