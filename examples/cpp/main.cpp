// Recognises a handwritten digit through the C++ wrapper; with C++20, arrays may as well be std::span.
#include "digits.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

int main()
{
    const unsigned char three[] = {
#include "../three.inc"
    };
    std::vector<float> image(DIGITS_IMAGE_COUNT);
    std::transform(std::begin(three), std::end(three), image.begin(), [](int pixel) { return float(pixel) / 16; });
    std::array<float, DIGITS_PROBS_COUNT> probs{};
    try {
        digits::Model model;
        model.run(image, probs);
        image.pop_back();
        model.run(image, probs); // throws: an element is missing
    } catch (const std::exception &problem) {
        std::printf("refused: %s\n", problem.what());
    }
    const auto best = std::max_element(probs.begin(), probs.end());
    std::printf("a %d, with probability %.3f\n", int(best - probs.begin()), double(*best));
}
