"""Device files: what they say, how they inherit, and how the broken ones are refused."""

from __future__ import annotations

import platform
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from edgec import resources
from edgec.device import load, probe
from edgec.device.device import Board, Device, Gpu, Toolchain
from edgec.device.load import list_devices, load_device
from edgec.device.probe import probe_host
from edgec.errors import DeviceError, EdgecError
from edgec.resources import data_folder

SHIPPED = [path.stem for path in sorted(data_folder("devices").glob("[!_]*.toml"))]
MINIMAL = 'description = "d"\narch = "aarch64"\n'


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_device_loads(name: str) -> None:
    device = load_device(name)
    assert device.name == name
    assert hash(device) == hash(load_device(name))
    assert device.is_gpu or device.vector_registers >= 6  # Helium has 8, and needs some in between


def test_list_is_every_shipped_device() -> None:
    assert [device.name for device in list_devices()] == SHIPPED


def test_facts_are_inherited_along_the_whole_chain() -> None:
    board = load_device("stm32h743")
    assert board.bases == ("cortex_m7", "cortex_m")
    assert (board.arch, board.hosted, board.toolchain.gcc_target) == ("thumb", False, "arm-none-eabi")
    assert (board.board.flash_bytes, board.l1d_bytes) == (2 * 2**20, 16 * 2**10)


def test_questions_about_a_device() -> None:
    board = load_device("raspberry_pi_5")
    assert board.has("neon", "dotprod") and not board.has("neon", "i8mm")
    assert (board.lanes(4), board.lanes(1), load_device("cortex_m4").lanes(8)) == (4, 16, 1)
    assert board.figure("fp32_gflops") is None
    assert board.needs == "neon, fp16, dotprod"
    wide = load_device("a64fx")
    assert wide.needs == "neon, fp16, sve, vectors of 512 bits" and wide.lanes(4) == 16 and not wide.has("dotprod")


def test_measured_figures_are_merged_one_by_one(tmp_path: Path) -> None:
    write(tmp_path, "old", MINIMAL + "[measured]\nread_gbps = 9\nfp32_gflops = 1.5")
    path = write(tmp_path, "new", 'base = "old"\n[measured]\nfp32_gflops = 30')
    device = load_device(path)
    assert device.measured == (("fp32_gflops", 30.0), ("read_gbps", 9.0))
    assert device.figure("read_gbps") == 9.0


def test_tables_are_merged_key_by_key(tmp_path: Path) -> None:
    write(tmp_path, "old", MINIMAL + "[gpu]\nclock_mhz = 9\nregisters = 4\n[board]\nclock_hz = 7\n")
    device = load_device(write(tmp_path, "new", 'base = "old"\n[gpu]\nclock_mhz = 30\n[toolchain]\ngcc_target = "x"\n'))
    assert (device.gpu, device.board) == (Gpu(clock_mhz=30, registers=4), Board(clock_hz=7))
    assert device.toolchain == Toolchain(gcc_target="x")


def test_a_user_folder_is_searched_first(tmp_path: Path) -> None:
    write(tmp_path, "arm64", MINIMAL + "cores = 3")
    assert load_device("arm64", [tmp_path]).cores == 3
    # Shipped files mean their shipped neighbors.
    assert load_device("raspberry_pi_4", [tmp_path]).page_bytes == 4096


def test_a_file_may_extend_the_one_it_shadows(tmp_path: Path) -> None:
    write(tmp_path, "raspberry_pi_5", 'base = "raspberry_pi_5"\nram_bytes = 8_589_934_592')
    device = load_device("raspberry_pi_5", [tmp_path])
    assert (device.ram_bytes, device.toolchain.cflags) == (8 * 2**30, ("-mcpu=cortex-a76",))
    assert device in list_devices([tmp_path])


def test_a_probed_device_takes_what_its_file_says_instead(tmp_path: Path) -> None:
    device = load_device(write(tmp_path, "here", "probe = true\ncores = 77"))
    assert (device.name, device.cores, device.arch) == ("here", 77, probe_host().arch)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("vector_byte = 4", "unknown key 'vector_byte'", "did you mean 'vector_bytes'?"),
        ("visible = true", "unknown key 'visible'", "it is called 'gpu.coherent_groups' now"),
        ("gpu_clock_mhz = 3", "unknown key 'gpu_clock_mhz'", "it is called 'gpu.clock_mhz' now"),
        ("shared_bytes = 3", "unknown key 'shared_bytes'", "it is called 'gpu.shared_bytes' now"),
        ("board.cflags = []", "unknown key 'cflags' in [board]", "it is called 'toolchain.cflags' now"),
        ("gpu.clock = 3", "unknown key 'clock' in [gpu]", "did you mean 'clock_mhz'?"),
        ("toolchain = 3", "'toolchain' must be a table of facts, not 3", None),
        (
            "gpu = 'mali'",
            "'gpu' must be a table of facts, not 'mali'",
            "the device file of a GPU next to a CPU is gpu_device = 'mali'",
        ),
        ("gpu.multiprocessors = 65_537", "'gpu.multiprocessors' is more than 65536", None),
        ("cores = '4'", "'cores' must be a whole number, 0 or more, not '4'", None),
        ("cores = true", "'cores' must be a whole number, 0 or more, not True", None),
        ("l2_bytes = -1", "'l2_bytes' must be a whole number, 0 or more, not -1", None),
        ("cores = 0", "'cores' must be 1 or more", None),
        ("vector_bytes = 24", "'vector_bytes' must be a power of two, 4 or more", None),
        ("[toolchain]\ncflags = '-O2'", "'toolchain.cflags' must be a list of texts, not '-O2'", None),
        ("[toolchain]\ncflags = [1]", "'toolchain.cflags' must be a list of texts, not [1]", None),
        ("hosted = 'no'", "'hosted' must be true or false, not 'no'", None),
        (
            "language = 'cude'",
            "'language' must be one of c, opencl, cuda, wgsl, not 'cude'",
            "did you mean 'cuda'?",
        ),
        ("measured.gflops = 'many'", "'measured' must be a table of numbers above 0, not {'gflops': 'many'}", None),
        ("base = 'arm46'", "the base 'arm46' is unknown", "did you mean 'arm64'?"),
        ("base = 'broken'", "the bases go in a circle: broken -> broken", None),
        ('instruction_sets = ["sve"]', "\"sve\" needs 'vector_bytes' of 32 or 64", None),
        ("cores = 65_537", "'cores' is more than 65536", None),
        ("l2_bytes = 4_611_686_018_427_387_905", f"'l2_bytes' is more than {2**62}", None),
        ("measured.gflops = nan", "'measured' must be a table of numbers above 0, not {'gflops': nan}", None),
        (
            "[gpu]\nmultiply_adds = 1",
            "'gpu.multiply_adds' needs 'gpu.multiprocessors', 'gpu.clock_mhz' and 'gpu.memory_gbps'",
            None,
        ),
        *(
            (
                f"{key} = {text!r}" if "cflags" not in key else f"{key} = ['-O2', {text!r}]",
                f"'{key}' has the text {text!r}, which cannot stand in build files",
                "one option a text, of at most 1000 letters, digits and _.+=,:/@%~-",
            )
            for key, text in (
                ("toolchain.cflags", "-O2 -w"),
                ("toolchain.cflags", "$(shell x)"),
                ("toolchain.gcc_target", "a;b"),
                ("toolchain.zig_mcpu", "a#b"),
                ("board.qemu_machine", 'a"b'),
                ("gpu_device", "`a`"),
            )
        ),
        *(
            (
                f"board.platformio = {text!r}",
                f"'board.platformio' must not be {text!r}",
                "platform and board by their names: raspberrypi:pico",
            )
            for text in ("pico", "/tmp/evil:pico", "https://evil.example", "a:b:c")
        ),
        (
            "hosted = false",
            "a device without an operating system needs 'toolchain.gcc_target' or 'toolchain.zig_target'",
            None,
        ),
    ],
)
def test_refused(tmp_path: Path, text: str, message: str, hint: str | None) -> None:
    path = write(tmp_path, "broken", MINIMAL + text)
    with pytest.raises(DeviceError) as caught:
        load_device(path)
    assert (caught.value.where, caught.value.message, caught.value.hint) == (str(path), message, hint)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_what_no_parser_takes_is_refused(tmp_path: Path) -> None:
    for text in (f"cores = {'9' * 5000}", "cflags = " + "[" * 3000 + "]" * 3000, "a = \0"):
        with pytest.raises(DeviceError, match="not valid TOML"):
            load_device(write(tmp_path, "x", MINIMAL + text))
    for name in ("x" * 5000, "a\0b"):
        with pytest.raises(DeviceError, match="no device is called"):
            load_device(name)


def test_the_name_of_a_file_stands_in_sources(tmp_path: Path) -> None:
    assert load_device(write(tmp_path, "my board-2.1", MINIMAL)).name == "my board-2.1"
    for name in ("a\nb", 'a"b', "a$b", "a\\b"):
        with pytest.raises(DeviceError, match="is no name of a device"):
            load_device(write(tmp_path, name, MINIMAL))


def test_bases_in_a_circle_are_shown(tmp_path: Path) -> None:
    write(tmp_path, "a", 'base = "b"')
    write(tmp_path, "b", 'base = "a"')
    with pytest.raises(DeviceError, match="a -> b -> a"):
        load_device("a", [tmp_path])


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="'arch' is not given"):
        load_device(write(tmp_path, "x", 'description = "d"'))
    with pytest.raises(DeviceError, match=r"not valid TOML: .*line 1"):
        load_device(write(tmp_path, "y", "description = x"))
    with pytest.raises(DeviceError, match="no such device file"):
        load_device(tmp_path / "z.toml")
    with pytest.raises(DeviceError) as caught:
        load_device("raspbery_pi_5")
    assert caught.value.hint == "did you mean 'raspberry_pi_5'?"


@pytest.mark.parametrize("place", ["edgec/_data/devices", "devices"])
def test_shipped_folders_are_in_the_package_or_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(resources, "__file__", str(tmp_path / "edgec/resources.py"))
    with pytest.raises(EdgecError, match="the shipped folder 'devices' is missing") as caught:
        resources.data_folder("devices")
    assert caught.value.hint == "reinstall edgec"
    (tmp_path / place).mkdir(parents=True)
    assert resources.data_folder("devices") == tmp_path / place


# -- the machine the tests run on, and machines that are only pretended ----------------------------


def test_the_host_is_probed() -> None:
    host = load_device("host")
    assert host == probe_host()
    assert host.link == "local" and host.cores >= 1 and host.l1d_bytes > 0 and host.ram_bytes > 2**20


def pretend(monkeypatch: pytest.MonkeyPatch, machine: str, system: str = "linux") -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", system)


def test_a_board_is_read_from_proc_and_sys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "aarch64")
    cache = tmp_path / "sys/devices/system/cpu/cpu0/cache"
    told = [(1, "Data", "64K"), (1, "Instruction", "48K"), (2, "Unified", "512K")]
    for index, (level, kind, size) in enumerate(told):
        folder = cache / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_text("Raspberry Pi 5 Model B Rev 1.0\0")
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nFeatures\t: fp asimd crc32 asimdhp asimddp\n")
    board = probe_host(tmp_path)
    assert board.description == "Raspberry Pi 5 Model B Rev 1.0, as found on this machine"
    assert board.instruction_sets == load_device("raspberry_pi_5").instruction_sets
    assert (board.vector_bytes, board.vector_registers, board.toolchain.cflags) == (16, 32, ("-mcpu=native",))
    assert (board.l1d_bytes, board.l2_bytes, board.l3_bytes) == (65_536, 524_288, 0)


@pytest.mark.parametrize(
    ("flags", "width"),
    [
        ("sse4_2", 16),
        ("avx avx2 fma", 32),
        ("avx avx2 fma avx512f", 32),
        ("avx avx2 fma avx512f avx512dq", 64),
    ],
)
def test_x86_vectors_follow_the_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, width: int) -> None:
    pretend(monkeypatch, "x86_64")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"model name : Some CPU\nflags : fpu {flags}\n")
    host = probe_host(tmp_path)
    assert host.vector_bytes == width
    assert ("-mprefer-vector-width=512" in host.toolchain.cflags) == (width == 64)


def test_a_machine_that_tells_nothing_gets_safe_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "x86_64")
    monkeypatch.setattr(probe, "_sysconf", lambda name: 0)
    host = probe_host(tmp_path)
    assert (host.instruction_sets, host.vector_bytes) == ((), 16)
    assert (host.l1d_bytes, host.l2_bytes, host.l3_bytes) == (32_768, 262_144, 0)


def test_a_mac_is_read_from_sysctl(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "arm64", system="darwin")
    told = """hw.perflevel0.l1dcachesize: 131072
        hw.perflevel0.l2cachesize: 16777216
        hw.l2cachesize: 4194304
        hw.optional.arm.FEAT_DotProd: 1
        hw.optional.arm.FEAT_I8MM: 0
        machdep.cpu.brand_string: Apple M2"""
    monkeypatch.setattr(probe, "_sysctl", lambda *names: told)
    mac = probe_host()
    assert mac.description == "Apple M2, as found on this machine"
    assert (mac.arch, mac.instruction_sets) == ("aarch64", ("neon", "dotprod"))
    assert (mac.l1d_bytes, mac.l2_bytes) == (131_072, 16_777_216)


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "s390x")
    with pytest.raises(DeviceError, match="'s390x' of this machine is unknown"):
        probe_host()


def test_facts_and_files_have_the_same_keys() -> None:
    declared = {field.name for field in fields(Device)}
    assert set(load._KINDS) - {"base", "probe"} == declared - {"name", "bases"}
