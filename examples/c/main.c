/* Recognises a handwritten digit: nothing is allocated, every status is looked at. */
#include "digits.h"

#include <stdio.h>

static const unsigned char three[DIGITS_IMAGE_COUNT] = {
#include "../three.inc"
};

/* As much as the model needs from the first multiple of DIGITS_ALIGN on: 8 for its C file, 64 for native code. C11 has _Alignas. */
static unsigned char memory[DIGITS_MEMORY_BYTES + DIGITS_ALIGN - 1];

int main(void)
{
    digits_context context;
    float image[DIGITS_IMAGE_COUNT], probs[DIGITS_PROBS_COUNT];
    int best = 0;
    unsigned char *const aligned = memory + (DIGITS_ALIGN - (uintptr_t)memory % DIGITS_ALIGN) % DIGITS_ALIGN;
    digits_status status = digits_init(&context, aligned, DIGITS_MEMORY_BYTES);
    if (status == DIGITS_OK) {
        for (int i = 0; i < DIGITS_IMAGE_COUNT; ++i) image[i] = (float)three[i] / 16.0f;
        status = digits_run(&context, image, probs);
    }
    if (status != DIGITS_OK) {
        fprintf(stderr, "digits: %s\n", digits_status_text(status));
        return 1;
    }
    for (int i = 1; i < DIGITS_PROBS_COUNT; ++i) {
        if (probs[i] > probs[best]) best = i;
    }
    printf("a %d, with probability %.3f\n", best, (double)probs[best]);
    return 0;
}
