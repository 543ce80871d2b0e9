#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include "sensor_msgs/msg/image.hpp"
#include "std_msgs/msg/float32_multi_array.hpp"
namespace rclcpp {
struct Logger {};
struct Clock {};
struct SensorDataQoS {};
template <class T> struct Publisher {
  using SharedPtr = std::shared_ptr<Publisher>;
  void publish(const T &message) {
    std::printf("%u:", message.layout.dim.at(0).size);
    for (float value : message.data) std::printf(" %.9g", value);
    std::printf("\n");
  }
};
template <class T> struct Subscription {
  using SharedPtr = std::shared_ptr<Subscription>;
  std::function<void(typename T::ConstSharedPtr)> call;
};
inline std::function<void(sensor_msgs::msg::Image::ConstSharedPtr)> called;
struct Node {
  explicit Node(const std::string &) {}
  virtual ~Node() = default;
  template <class T> T declare_parameter(const std::string &, T) { return std::atoi(std::getenv("THREADS")); }
  template <class T> typename Publisher<T>::SharedPtr create_publisher(const std::string &, int) {
    return std::make_shared<Publisher<T>>();
  }
  template <class T, class Call>
  typename Subscription<T>::SharedPtr create_subscription(const std::string &, SensorDataQoS, Call &&call) {
    called = call;
    return std::make_shared<Subscription<T>>();
  }
  Logger get_logger() { return {}; }
  Clock *get_clock() { return &clock_; }
  Clock clock_;
};
inline void init(int, char **) {}
inline void shutdown() {}
inline void spin(const std::shared_ptr<Node> &) {
  auto image = std::make_shared<sensor_msgs::msg::Image>();
  char encoding[16];
  while (std::scanf("%15s %u %u %u", encoding, &image->width, &image->height, &image->step) == 4) {
    image->encoding = encoding;
    std::size_t count = 0;
    if (std::scanf("%zu", &count) != 1) return;
    image->data.resize(count);
    for (auto &byte : image->data) {
      unsigned value = 0;
      if (std::scanf("%u", &value) != 1) return;
      byte = static_cast<std::uint8_t>(value);
    }
    called(image);
  }
}
}
#define RCLCPP_ERROR_THROTTLE(logger, clock, often, ...) \
  ((void)(logger), (void)(clock), std::printf("error: " __VA_ARGS__), std::printf("\n"))
