#include "std_msgs/msg/float32_multi_array.hpp"
