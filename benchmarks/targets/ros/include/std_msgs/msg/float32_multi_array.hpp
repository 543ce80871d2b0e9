#pragma once
#include <cstdint>
#include <string>
#include <vector>
namespace std_msgs::msg {
struct MultiArrayDimension { std::string label; std::uint32_t size = 0, stride = 0; };
struct MultiArrayLayout { std::vector<MultiArrayDimension> dim; std::uint32_t data_offset = 0; };
struct Float32MultiArray { MultiArrayLayout layout; std::vector<float> data; };
}
