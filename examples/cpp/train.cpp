// Learns on the device, from scratch: which of the eight rows of an image is lit.
#include "digits_train.hpp"

#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr int steps = 200;

struct Batch {
    std::vector<float> image = std::vector<float>(DIGITS_TRAIN_IMAGE_COUNT);
    std::vector<std::int32_t> label = std::vector<std::int32_t>(DIGITS_TRAIN_LABEL_COUNT);

    void draw(std::mt19937 &random)
    {
        for (std::size_t n = 0; n < label.size(); ++n) {
            label[n] = std::int32_t(random() % 8);
            for (std::size_t i = 0; i < 64; ++i)
                image[n * 64 + i] = float(random() % 256) / 512 + (std::int32_t(i / 8) == label[n] ? 0.5f : 0.0f);
        }
    }
};

} // namespace

int main()
{
    Batch batch;
    std::mt19937 random;
    float loss, accuracy;
    try {
        digits_train::Model model;
        model.set_length(steps);
        for (int step = 0; step < steps; ++step) {
            batch.draw(random);
            model.step(batch.image, batch.label, loss, accuracy);
            if (step % 50 == 0) std::printf("step %d: loss %.3f\n", step, double(loss));
        }
        std::vector<float> bias(DIGITS_TRAIN_TENSOR_LOGITS_BIAS_COUNT);
        model.get(DIGITS_TRAIN_TENSOR_LOGITS_BIAS, bias);
        digits_train::Model other; // with the first weights, but for this one
        other.set(DIGITS_TRAIN_TENSOR_LOGITS_BIAS, bias);
        batch.draw(random);
        model.evaluate(batch.image, batch.label, loss, accuracy);
        bias.pop_back();
        model.get(DIGITS_TRAIN_TENSOR_LOGITS_BIAS, bias); // throws: an element is missing
    } catch (const std::exception &problem) {
        std::printf("refused: %s\n", problem.what());
    }
    std::printf("then: loss %.3f, %.0f %% right\n", double(loss), 100.0 * double(accuracy));
}
