/* Recognises a handwritten digit: nothing is allocated, every status is looked at. */
#include "digits.h"

#include <stdio.h>

static const unsigned char three[DIGITS_IMAGE_COUNT] = {
#include "../three.inc"
};

static union {
    unsigned char bytes[DIGITS_MEMORY_BYTES];
    int64_t aligned; /* makes the address a multiple of DIGITS_ALIGN, 8 */
} memory;

int main(void)
{
    digits_context context;
    float image[DIGITS_IMAGE_COUNT], probs[DIGITS_PROBS_COUNT];
    int best = 0;
    digits_status status = digits_init(&context, memory.bytes, sizeof memory.bytes);
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
