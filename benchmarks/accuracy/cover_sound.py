"""Sound: every variant of the silero voice detector over a minute of it, and basic-pitch."""

from __future__ import annotations

import wave

import numpy as np

from benchmarks.accuracy.cover import Arrays, Beside, Row, case, from_wheel, trained

SECONDS = 60
#: The bound on probabilities, absolute.
PROBABILITY = 1e-5


def sound(rate: int) -> np.ndarray:
    """A minute of spoken words, louder and softer, under noise that comes and goes; f32 in -1 .. 1."""
    words = []
    for name in ("yes", "no", "silence"):
        with wave.open(str(trained(f"tflm/{name}_1000ms.wav"))) as file:
            words.append(np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768)
    random = np.random.default_rng(1)
    clip = np.concatenate([words[int(k)] * float(random.uniform(0.3, 2)) for k in random.integers(0, 3, SECONDS)])
    clip = clip + random.standard_normal(len(clip)).astype(np.float32) * 0.02 * np.sin(np.arange(len(clip)) / 2e5) ** 2
    places = np.arange(0, SECONDS * rate) * (16000 / rate)
    resampled = np.interp(places, np.arange(len(clip)), clip) if rate != 16000 else clip
    return np.clip(resampled, -1, 1).astype(np.float32)


def frames(rate: int) -> list[np.ndarray]:
    """Windows of 32 ms, each with the last 4 ms of the one before."""
    step, context = rate // 500 * 16, rate // 250
    padded = np.concatenate([np.zeros(context, np.float32), sound(rate)])
    return [padded[k : k + context + step] for k in range(0, len(padded) - context - step + 1, step)]


def streamed(name: str, rate: int, given: Arrays | None = None) -> Row:
    """Window after window; each side goes on from its own state, edgec's is one array for old and new."""
    windows = frames(rate)
    shapes = {"input": (1, len(windows[0])), "state": (2, 1, 128)}
    pair = Beside(from_wheel(name), shapes=shapes, states={"state": "stateN"})
    own, theirs = np.zeros((2, 1, 128), np.float32), np.zeros((2, 1, 128), np.float32)
    worst, same, spoken = 0.0, 0, 0
    for window in windows:
        got, want = pair({"input": window[None], "state": theirs, **(given or {})}, {"state": own}, {"stateN": own})
        theirs = want["stateN"]
        worst = max(worst, float(np.abs(got["output"] - want["output"]).max()))
        same += bool((got["output"] > 0.5) == (want["output"] > 0.5))
        spoken += bool(want["output"] > 0.5)
    what = f"{len(windows)} windows of {rate // 1000} kHz, {spoken} of speech; probability, absolute"
    return Row(name, what, worst, PROBABILITY, same, len(windows), "speech or not")


RATE = {16000: {"sr": np.array(16000)}, 8000: {"sr": np.array(8000)}}


@case("silero_vad 16 kHz")
def at_16_khz() -> Row:
    return streamed("silero_vad", 16000, RATE[16000])


@case("silero_vad 8 kHz")
def at_8_khz() -> Row:
    return streamed("silero_vad", 8000, RATE[8000])


@case("silero_vad_16k_op15")
def op15() -> Row:
    return streamed("silero_vad_16k_op15", 16000, RATE[16000])


@case("silero_vad_half")
def half() -> Row:
    return streamed("silero_vad_half", 16000)


@case("silero_vad_op18_ifless")
def ifless() -> Row:
    return streamed("silero_vad_op18_ifless", 16000, RATE[16000])


@case("silero_vad_op18_ifless 8 kHz")
def ifless_8() -> Row:
    return streamed("silero_vad_op18_ifless", 8000, RATE[8000])


@case("silero_vad_openvino_16k")
def openvino() -> Row:
    return streamed("silero_vad_openvino_16k", 16000)


@case("silero_vad_16k_sequence")
def sequence() -> Row:
    """As many windows a call as there happen to be, from 1 to 64."""
    windows = np.stack(frames(16000))
    states = {"h": "hn", "c": "cn"}
    pair = Beside(from_wheel("silero_vad_16k_sequence"), dims={"sequence_length": (1, 64, 1)}, states=states)
    own = theirs = {name: np.zeros((1, 1, 128), np.float32) for name in states}
    random, at, worst, same, calls = np.random.default_rng(2), 0, 0.0, 0, 0
    while at < len(windows):
        count = (1, 64, int(random.integers(1, 65)))[calls % 3]
        got, want = pair({"input": windows[at : at + count], **theirs}, own)
        own = {old: got[new] for old, new in states.items()}
        theirs = {old: want[new] for old, new in states.items()}
        worst = max(worst, float(np.abs(got["speech_probs"] - want["speech_probs"]).max()))
        same += int(((got["speech_probs"] > 0.5) == (want["speech_probs"] > 0.5)).sum())
        at, calls = at + count, calls + 1
    what = f"{len(windows)} windows in {calls} calls of 1 to 64, probability, absolute"
    return Row("silero_vad_16k_sequence", what, worst, PROBABILITY, same, len(windows), "speech or not")


@case("silero_vad_16k_op15, several sounds")
def together() -> Row:
    """One artefact for one to four sounds at a time."""
    windows = np.stack(frames(16000))
    pair = Beside(from_wheel("silero_vad_16k_op15"), dims={"batch": (1, 4, 1), "sequence": (576, 576, 1)})
    worst, same, total = 0.0, 0, 0
    for batch in (1, 2, 3, 4):
        own = theirs = np.zeros((2, batch, 128), np.float32)
        for at in range(300):
            window = windows[[at + 400 * k for k in range(batch)]]
            got, want = pair({"input": window, "state": theirs, **RATE[16000]}, {"state": own})
            own, theirs = got["stateN"], want["stateN"]
            worst = max(worst, float(np.abs(got["output"] - want["output"]).max()))
            same += int(((got["output"] > 0.5) == (want["output"] > 0.5)).sum())
            total += batch
    what = "300 windows of 1, 2, 3 and 4 sounds at once, probability, absolute"
    return Row("silero_vad_16k_op15", what, worst, PROBABILITY, same, total, "speech or not")


@case("silero_vad_op18_ifless, any rate")
def any_rate() -> Row:
    """One artefact for both rates: the length of the window and the rate are chosen when it runs."""
    pair = Beside(from_wheel("silero_vad_op18_ifless"), dims={"batch": (1, 1, 1), "sequence": (288, 576, 288)})
    worst, same, total = 0.0, 0, 0
    for rate in (16000, 8000):
        own = theirs = np.zeros((2, 1, 128), np.float32)
        for window in frames(rate)[:500]:
            got, want = pair({"input": window[None], "state": theirs, **RATE[rate]}, {"state": own})
            own, theirs = got["stateN"], want["stateN"]
            worst = max(worst, float(np.abs(got["output"] - want["output"]).max()))
            same, total = same + bool((got["output"] > 0.5) == (want["output"] > 0.5)), total + 1
    what = "500 windows each of 16 and 8 kHz, one artefact, probability, absolute"
    return Row("silero_vad_op18_ifless", what, worst, PROBABILITY, same, total, "speech or not")


@case("basic_pitch")
def pitch() -> Row:
    """Two seconds at 22050 Hz a time: chords of decaying tones, and speech."""
    pair = Beside(from_wheel("basic_pitch"), shapes={"serving_default_input_2:0": (1, 43844, 1)})
    random, t = np.random.default_rng(3), np.arange(43844) / 22050
    speech = np.interp(np.arange(43844) * (16000 / 22050), np.arange(SECONDS * 16000), sound(16000))
    same = total = 0
    for k in range(6):
        notes = 440 * 2 ** (random.integers(-20, 20, 3) / 12)
        chord = sum(np.sin(2 * np.pi * f * t) * np.exp(-2 * ((t + p) % 1)) for f, p in zip(notes, (0, 0.3, 0.6)))
        clip = (speech if k == 5 else chord / 3).astype(np.float32)
        got, want = pair({"serving_default_input_2:0": clip[None, :, None]})
        for name, threshold in zip(sorted(want), (0.3, 0.3, 0.5)):
            same += int(((got[name] > threshold) == (want[name] > threshold)).sum())
            total += want[name].size
    return Row("basic_pitch", "6 clips of 2 s, every output", pair.relative, same=same, decisions=total, what="notes")
