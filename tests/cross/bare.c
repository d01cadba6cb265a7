/* A Cortex-M without an operating system: reads the block from the host's file "given", runs the batch over it, and
   writes it to the host's file "made", by semihosting. */
#include <stddef.h>
extern int batch(unsigned char *block);
static unsigned char block[BYTES] __attribute__((aligned(64)));
extern unsigned char stack_top[];

enum { OPEN = 1, CLOSE = 2, WRITE = 5, READ = 6, EXIT = 0x20 };

static int ask(int operation, const void *arguments)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static int transfer(int operation, const char *name, int mode, size_t length)
{
    const struct { const char *name; int mode; size_t length; } which = {name, mode, length};
    const int file = ask(OPEN, &which);
    const struct { int file; unsigned char *data; size_t bytes; } piece = {file, block, sizeof block};
    const struct { int file; } end = {file};
    const int left = file < 0 ? 1 : ask(operation, &piece);
    return ask(CLOSE, &end) | left;
}

void start(void)
{
    *(volatile unsigned *)0xe000ed88 |= 0xfu << 20; /* the floating-point unit is on */
    __asm__ volatile("dsb\n isb");
    int status = transfer(READ, "given", 1, 5) ? 100 : 0;
    if (status == 0) status = batch(block) ? 101 : 0;
    if (status == 0) status = transfer(WRITE, "made", 5, 4) ? 102 : 0;
    const struct { int reason, status; } end = {0x20026, status};
    for (;;) ask(EXIT, &end);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {stack_top, (const void *)start};

void *memset(void *to, int byte, size_t count)
{
    for (size_t i = 0; i < count; ++i) ((volatile unsigned char *)to)[i] = (unsigned char)byte;
    return to;
}
