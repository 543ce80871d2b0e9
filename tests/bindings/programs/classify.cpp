// Runs digits on the floats of a file and prints what it gives.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "digits.hpp"

namespace digits = edgec::digits;

static std::vector<float> classify(digits::View<const float> image) {
  digits::Network network(2);
  std::vector<float> probabilities(digits::probabilities_elements);
  const digits::Status status = network.run(image, probabilities);
  if (status != digits::Status::ok) std::exit(static_cast<int>(status));
  return probabilities;
}

int main(int, char **arguments) {
  std::array<float, digits::image_elements> image;
  std::FILE *file = std::fopen(arguments[1], "rb");
  if (!file || std::fread(image.data(), sizeof(float), image.size(), file) != image.size()) return 1;
  std::fclose(file);
  digits::Network network;
  float few[3];
  if (network.run(image, few) != digits::Status::wrong_length) return 2;
  std::vector<float> there;
  std::thread elsewhere([&] { there = classify(image); });
  const std::vector<float> here = classify(image);
  elsewhere.join();
  if (here != there) return 3;
  for (const float p : here) std::printf("%.9g\n", static_cast<double>(p));
}
