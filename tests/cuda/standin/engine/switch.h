// Switching between stacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)

// Saves where we are in *from and goes on where `to` was saved.
extern "C" void standin_switch(void **from, void *to);
asm(R"(
.text
.hidden standin_switch
.globl standin_switch
.type standin_switch, @function
standin_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size standin_switch, .-standin_switch
)");

// A saved place at which `main` begins on a new stack, which ends at `top`.
inline void *standin_fresh(char *top, void (*main)()) {
    auto **at = reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
    *--at = nullptr;  // no caller: keeps the stack aligned as after a call
    *--at = reinterpret_cast<void *>(main);
    at -= 6;
    std::memset(at, 0, 6 * sizeof(void *));
    return at;
}

#elif defined(__aarch64__)

extern "C" void standin_switch(void **from, void *to);
asm(R"(
.text
.hidden standin_switch
.globl standin_switch
.type standin_switch, %function
standin_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size standin_switch, .-standin_switch
)");

inline void *standin_fresh(char *top, void (*main)()) {
    auto *at = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15}) - 160;
    std::memset(at, 0, 160);
    reinterpret_cast<void **>(at)[11] = reinterpret_cast<void *>(main);  // x30
    return at;
}

#else
#error "the stand-in runs on x86-64 and AArch64"
#endif
