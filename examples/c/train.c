/* Learns on the device, from scratch: which of the eight rows of an image is lit. Nothing is allocated. */
#include "digits_train.h"

#include <stdio.h>

enum { BATCH = DIGITS_TRAIN_LABEL_COUNT, STEPS = 200 };

/* The state (weights, and what the optimizer keeps) and scratch memory. */
static unsigned char memory[DIGITS_TRAIN_MEMORY_BYTES + DIGITS_TRAIN_ALIGN - 1];

/* Noise from 0 to 1. */
static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f;
}

static void draw(uint32_t *seed, float *image, int32_t *label)
{
    for (int n = 0; n < BATCH; ++n) {
        label[n] = (int32_t)(noise(seed) * 8.0f) % 8;
        for (int i = 0; i < 64; ++i) image[n * 64 + i] = 0.5f * noise(seed) + (i / 8 == label[n] ? 0.5f : 0.0f);
    }
}

int main(void)
{
    static float image[DIGITS_TRAIN_IMAGE_COUNT], bias[DIGITS_TRAIN_TENSOR_LOGITS_BIAS_COUNT];
    static int32_t label[DIGITS_TRAIN_LABEL_COUNT];
    digits_train_context context;
    float loss, accuracy;
    uint32_t seed = 1;
    unsigned char *const aligned = memory + (DIGITS_TRAIN_ALIGN - (uintptr_t)memory % DIGITS_TRAIN_ALIGN) % DIGITS_TRAIN_ALIGN;
    digits_train_status status = digits_train_init(&context, aligned, DIGITS_TRAIN_MEMORY_BYTES);
    if (status == DIGITS_TRAIN_OK) status = digits_train_set_length(&context, STEPS);
    for (int step = 0; step < STEPS && status == DIGITS_TRAIN_OK; ++step) {
        draw(&seed, image, label);
        status = digits_train_step(&context, image, label, &loss, &accuracy);
        if (status == DIGITS_TRAIN_NOT_FINITE) status = DIGITS_TRAIN_OK; /* the batch is left out */
        else if (step % 50 == 0) printf("step %d: loss %.3f\n", step, (double)loss);
    }
    if (status == DIGITS_TRAIN_OK) {
        draw(&seed, image, label);
        status = digits_train_evaluate(&context, image, label, &loss, &accuracy);
    }
    if (status == DIGITS_TRAIN_OK) status = digits_train_get(&context, DIGITS_TRAIN_TENSOR_LOGITS_BIAS, bias);
    if (status != DIGITS_TRAIN_OK) {
        fprintf(stderr, "digits_train: %s\n", digits_train_status_text(status));
        return 1;
    }
    printf("then: loss %.3f, %.0f %% right, and the bias of row 0 is %.4f\n", (double)loss, 100.0 * (double)accuracy, (double)bias[0]);
    return 0;
}
