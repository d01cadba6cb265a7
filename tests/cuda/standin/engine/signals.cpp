// Faults of the processor while a kernel runs: outside of memory, a stack that overflows, an integer divided by zero.
#include "signals.h"

#include <cstdio>

#include "launch.h"

namespace standin {
namespace {

struct sigaction kept_segv, kept_bus, kept_fpe, kept_ill;

void on_signal(int signal, siginfo_t *info, void *) {
    if (!running()) {  // not ours
        sigaction(SIGSEGV, &kept_segv, nullptr);
        sigaction(SIGBUS, &kept_bus, nullptr);
        sigaction(SIGFPE, &kept_fpe, nullptr);
        sigaction(SIGILL, &kept_ill, nullptr);
        return;
    }
    if (signal == SIGFPE) fault_of(Outcome::fault, "an integer division by zero");
    if (signal == SIGILL) fault_of(Outcome::misaligned_address, "a misaligned access");  // how g++ was told to trap
    const char *at = static_cast<const char *>(info->si_addr);
    if (at >= stacks().start && at < stacks().stop) fault_of(Outcome::fault, "a thread's local memory is larger than its stack");
    if (!at) fault_of(Outcome::illegal_address, "an access to address 0");
    char text[64];
    std::snprintf(text, sizeof text, "an access to address %p", static_cast<const void *>(at));
    fault_of(Outcome::illegal_address, text);
}

}  // namespace

Signals::Signals() {
    static char alternate[64 << 10];
    stack_t mine{};
    mine.ss_sp = alternate;
    mine.ss_size = sizeof alternate;
    sigaltstack(&mine, &kept);
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &kept_segv);
    sigaction(SIGBUS, &action, &kept_bus);
    sigaction(SIGFPE, &action, &kept_fpe);
    sigaction(SIGILL, &action, &kept_ill);
}

Signals::~Signals() {
    sigaction(SIGSEGV, &kept_segv, nullptr);
    sigaction(SIGBUS, &kept_bus, nullptr);
    sigaction(SIGFPE, &kept_fpe, nullptr);
    sigaction(SIGILL, &kept_ill, nullptr);
    sigaltstack(&kept, nullptr);
}

}  // namespace standin
