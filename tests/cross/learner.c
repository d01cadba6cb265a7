/* Learns the digits that stand in `digits.inc` (pixels and labels), then counts how many of others it knows; tells the
   bits of the state and of all losses. Compiled for a microcontroller, and for the host. */
#include "digits_sgd.h"
#include <string.h>

static const unsigned char pixels[][64] = {
#include "pixels.inc"
};
static const unsigned char labels[] = {
#include "labels.inc"
};
enum { BATCH = DIGITS_SGD_LABEL_COUNT, KNOWN = (int)sizeof labels, TRAIN = KNOWN - TEST };

static union { unsigned char bytes[DIGITS_SGD_MEMORY_BYTES]; int64_t aligned; } memory;

static void batch_of(int first, float *image, int32_t *label)
{
    for (int n = 0; n < BATCH; ++n) {
        label[n] = labels[first + n];
        for (int i = 0; i < 64; ++i) image[n * 64 + i] = (float)pixels[first + n][i] / 16.0f;
    }
}

static uint64_t hashed(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *const each = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ each[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Fills in the status, the bits of the losses, those of the state, and the share of digits that are known before and after. */
int learn(uint64_t told[4])
{
    static float image[DIGITS_SGD_IMAGE_COUNT];
    static int32_t label[DIGITS_SGD_LABEL_COUNT];
    digits_sgd_context context;
    float loss, accuracy, right[2] = {0, 0};
    uint64_t losses = UINT64_C(14695981039346656037), state = losses;
    int status = digits_sgd_init(&context, memory.bytes, sizeof memory.bytes);
    for (int epoch = 0; epoch <= EPOCHS; ++epoch) {
        if (epoch == 0 || epoch == EPOCHS) {
            for (int first = TRAIN; first + BATCH <= KNOWN && status == DIGITS_SGD_OK; first += BATCH) {
                batch_of(first, image, label);
                status = digits_sgd_evaluate(&context, image, label, &loss, &accuracy);
                right[epoch == EPOCHS] += accuracy * BATCH / TEST;
            }
        }
        for (int first = 0; epoch < EPOCHS && first + BATCH <= TRAIN && status == DIGITS_SGD_OK; first += BATCH) {
            batch_of(first, image, label);
            status = digits_sgd_step(&context, image, label, &loss, &accuracy);
            losses = hashed(losses, &loss, sizeof loss);
        }
    }
    for (int n = 0; n < DIGITS_SGD_TENSORS; ++n) {
        const digits_sgd_tensor_facts *const facts = digits_sgd_tensor(n);
        state = hashed(state, memory.bytes + facts->offset, facts->bytes);
    }
    told[0] = (uint64_t)status;
    told[1] = losses;
    told[2] = state;
    memcpy(&told[3], right, sizeof right);
    return status;
}
