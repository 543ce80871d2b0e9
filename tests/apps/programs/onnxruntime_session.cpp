/* Sessions of onnxruntime with the provider of the network "checked": program MODEL LIBRARY INPUT OUTPUT. */
#include <cstdio>
#include <exception>
#include <fstream>
#include <thread>
#include <vector>

#include "checked_session.hpp"

struct OrtSession;
struct OrtRunOptions;

namespace {

using namespace edgec::ort;

using CreateEnv = Entry<3, OrtStatus *(int, const char *, OrtEnv **)>;
using CreateSession = Entry<7, OrtStatus *(const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **)>;
using Run = Entry<9, OrtStatus *(OrtSession *, const OrtRunOptions *, const char *const *, const OrtValue *const *,
                                 std::size_t, const char *const *, std::size_t, OrtValue **)>;
using CreateSessionOptions = Entry<10, OrtStatus *(OrtSessionOptions **)>;
using CreateTensor = Entry<49, OrtStatus *(const OrtMemoryInfo *, void *, std::size_t, const std::int64_t *,
                                           std::size_t, int, OrtValue **)>;
using CreateCpuMemoryInfo = Entry<69, OrtStatus *(int, int, OrtMemoryInfo **)>;
using ReleaseEnv = Entry<92, void(OrtEnv *)>;
using ReleaseMemoryInfo = Entry<94, void(OrtMemoryInfo *)>;
using ReleaseSession = Entry<95, void(OrtSession *)>;
using ReleaseValue = Entry<96, void(OrtValue *)>;
using ReleaseSessionOptions = Entry<100, void(OrtSessionOptions *)>;
constexpr std::size_t CHANNELS = 4;

void run(const OrtApi *api, OrtSession *session, const OrtMemoryInfo *memory, std::vector<float> x, float *y) {
  const std::int64_t shape[] = {1, 3, 8, 8};
  OrtValue *input = nullptr, *output = nullptr;
  check(api, call<CreateTensor>(api, memory, static_cast<void *>(x.data()), x.size() * sizeof(float),
                                static_cast<const std::int64_t *>(shape), std::size_t{4}, 1, &input));
  const char *const read[] = {"x"}, *const written[] = {"y"};
  const OrtValue *const inputs[] = {input};
  check(api, call<Run>(api, session, static_cast<const OrtRunOptions *>(nullptr), static_cast<const char *const *>(read),
                       static_cast<const OrtValue *const *>(inputs), std::size_t{1},
                       static_cast<const char *const *>(written), std::size_t{1}, &output));
  void *data = nullptr;
  check(api, call<GetTensorMutableData>(api, output, &data));
  for (std::size_t k = 0; k < CHANNELS; ++k) y[k] = static_cast<const float *>(data)[k];
  call<ReleaseValue>(api, output);
  call<ReleaseValue>(api, input);
}

void all(char **arguments) {
  std::vector<float> x(3 * 8 * 8), y(4 * CHANNELS);
  std::ifstream(arguments[3], std::ios::binary)
      .read(reinterpret_cast<char *>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(float)));
  const OrtApi *const api = api_of(OrtGetApiBase());
  OrtEnv *env = nullptr;
  check(api, call<CreateEnv>(api, static_cast<int>(INFO), "test", &env));
  OrtMemoryInfo *memory = nullptr;
  check(api, call<CreateCpuMemoryInfo>(api, 1, 0, &memory));
  for (int round = 0; round < 3; ++round) {
    OrtSessionOptions *options = nullptr;
    check(api, call<CreateSessionOptions>(api, &options));
    edgec::checked::append(env, options, arguments[2], 1 + round);
    OrtSession *session = nullptr;
    check(api, call<CreateSession>(api, static_cast<const OrtEnv *>(env), static_cast<const char *>(arguments[1]),
                                   static_cast<const OrtSessionOptions *>(options), &session));
    std::vector<std::thread> threads;
    for (std::size_t k = 0; k < 4; ++k)
      threads.emplace_back([&, k] {
        for (int again = 0; again < 5; ++again) run(api, session, memory, x, y.data() + k * CHANNELS);
      });
    for (std::thread &thread : threads) thread.join();
    call<ReleaseSession>(api, session);
    call<ReleaseSessionOptions>(api, options);
  }
  call<ReleaseMemoryInfo>(api, memory);
  call<ReleaseEnv>(api, env);
  for (std::size_t k = 0; k < y.size(); ++k)
    if (y[k] < y[k % CHANNELS] || y[k] > y[k % CHANNELS]) throw std::runtime_error("threads have other results");
  std::ofstream(arguments[4], std::ios::binary)
      .write(reinterpret_cast<const char *>(y.data()), static_cast<std::streamsize>(CHANNELS * sizeof(float)));
}

}  // namespace

int main(int count, char **arguments) {
  if (count != 5) return 2;
  try {
    all(arguments);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
