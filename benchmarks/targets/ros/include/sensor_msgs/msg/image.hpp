#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>
namespace sensor_msgs::msg {
struct Image {
  using ConstSharedPtr = std::shared_ptr<const Image>;
  std::uint32_t height = 0, width = 0, step = 0;
  std::string encoding;
  std::uint8_t is_bigendian = 0;
  std::vector<std::uint8_t> data;
};
}
