"""The one table of options: the fields of `Settings`, each with its `Option`.

The Python keywords, the command line, the keys of edgec.toml, the defaults and the list in the guide all come from it.
A new option is a field here and its resolved value in `edgec.options.resolved`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Union, get_args, get_type_hints

from edgec.device.names import CompilerKind
from edgec.options import texts
from edgec.options.texts import DimensionRange

if TYPE_CHECKING:
    from edgec.device.device import Device

Folders = Iterable[Union[str, Path]]

TARGET = "Target"
SHAPES = "Shapes, inputs and states"
PICTURES = "Pictures and sounds"
COMPRESSION = "Compression"
TRAINING = "Training"
REWRITING = "Rewriting and fusion"
LIMITS = "Limits"
EXTENSIONS = "Parts of your own"

#: Compilers by kind; every other value of --compiler is a command.
COMPILER_KINDS = (*get_args(CompilerKind), "nvcc", "emulated")


@dataclass(frozen=True)
class Option:
    """One row of the table, as the command line and edgec.toml need it.

    ``help`` is one sentence and ``group`` the panel of ``--help`` it is shown in. ``default`` counts where nothing is
    given. ``kind`` is the type of a value on the command line, in brackets of `list` where an option may be repeated.
    ``flag`` is the long name with underscores, which is also the key of edgec.toml (the keyword, if the row gives
    none); ``short`` are further names. ``pair`` reads and writes an option of the form NAME=VALUE, ``write`` turns
    another value into what edgec.toml holds. ``is_path`` tells whether a value is a path, which edgec.toml has relative
    to itself; ``takes_number`` lets a text be a number there. ``runs``
    tells whether a value names a program or code to be run, ``writes`` that it is a file that is written: a line of
    edgec.toml of the first kind has to be trusted, one of the second where the file is outside of the folder.
    """

    help: str
    group: str
    default: Any = None
    kind: Any = str
    metavar: str | None = None
    flag: str = ""
    short: tuple[str, ...] = ()
    pair: texts.Pair | None = None
    write: Callable[[Any], Any] | None = None
    is_path: Callable[[str], bool] = lambda value: False
    takes_number: bool = False
    runs: Callable[[str], bool] = lambda value: False
    writes: bool = False

    @property
    def long(self) -> str:
        """The long name as the command line has it."""
        return f"--{self.flag.replace('_', '-')}"

    @property
    def is_repeated(self) -> bool:
        return self.pair is not None or getattr(self.kind, "__origin__", None) is list


def _pair(help: str, group: str, flag: str, metavar: str, pair: texts.Pair) -> Option:
    return Option(help, group, kind=list[str], metavar=metavar, flag=flag, pair=pair)


def _folder(help: str, *short: str) -> Option:
    return Option(
        help,
        EXTENSIONS,
        kind=list[Path],
        metavar="DIR",
        short=short,
        is_path=lambda value: True,
        runs=lambda value: True,
    )


def _data(help: str) -> Option:
    return replace(_folder(help), runs=lambda value: False)


class Settings(TypedDict, total=False):
    """Keywords that `build`, `check`, `bench`, `load` and `tune` share; the guide lists and explains them.

    Values have the types below; texts as the command line takes them are not read here. ``device`` may be a `Device`,
    ``fuse`` may be True (planner) or False (none), and a range of ``dims`` is (least, most), (least, most, step), a
    Python range, or one number.
    """

    device: Annotated[
        str | Path | Device,
        Option(
            "Machine to build for: a name, or a TOML file.", TARGET, "host", short=("-d",),
            is_path=lambda value: value.endswith(".toml"),
        ),
    ]  # fmt: skip
    dispatch: Annotated[
        str | None,
        Option(
            "Devices whose kernels the library has too, as x86_64_avx2,x86_64_avx512; it takes the best that runs.",
            TARGET, metavar="DEVICES",
        ),
    ]  # fmt: skip
    place: Annotated[
        str | None,
        Option("Where kernels run: auto (CPU and GPU, by predicted time), gpu, cpu.", TARGET, metavar="PLACE"),
    ]
    threads: Annotated[
        int | None,
        Option(
            "Most threads the network may use: those that a sweep found quickest (device bench --sweep), else 1.",
            TARGET, kind=int, metavar="N", short=("-t",),
        ),
    ]  # fmt: skip
    cores: Annotated[
        int | str | None,
        Option(
            "Cores that threads are kept on, as 4-7 or 0,2, or any; those of a sweep by default.", TARGET,
            metavar="LIST", takes_number=True,
        ),
    ]  # fmt: skip
    ram: Annotated[
        int | str | None,
        Option(
            "Most for arena, inputs and outputs, as 300M or in bytes; a board's own by default.", TARGET,
            metavar="SIZE", takes_number=True,
        ),
    ]  # fmt: skip
    weights: Annotated[
        str,
        Option(
            "Where weights are: incbin (linked), array (in C), file (mapped), stream (read as it runs, within --ram).",
            TARGET, "incbin",
        ),
    ]  # fmt: skip
    name: Annotated[str, Option("Prefix of everything in the generated C.", TARGET, "net")]
    precision: Annotated[
        str | None,
        Option(
            "fp32, fp16, bf16; of a GPU tf32, int8, mixed or mixed:ERROR. The device's own by default.",
            TARGET,
        ),
    ]
    compiler: Annotated[
        str | None,
        Option("gcc, clang, zig, or a command.", TARGET, runs=lambda value: value not in COMPILER_KINDS),
    ]

    bounds: Annotated[
        bool, Option("Emit bounds of the outputs too, for all inputs near a given one.", TARGET, False, bool)
    ]

    shapes: Annotated[
        Mapping[str, Sequence[int]], _pair("Shape of an input.", SHAPES, "shape", "NAME=1,3,224,224", texts.SHAPE)
    ]
    dims: Annotated[
        Mapping[str, int | tuple[int, int] | DimensionRange | range],
        _pair("Range of a dimension that stays open; :STEP after it.", SHAPES, "dim", "NAME=1..8", texts.DIM),
    ]
    values: Annotated[Mapping[str, Any], _pair("Fix an input at build time.", SHAPES, "value", "NAME=1,2", texts.VALUE)]
    states: Annotated[
        Mapping[str, str],
        _pair("An output is the next value of an input.", SHAPES, "state", "INPUT=OUTPUT", texts.STATE),
    ]
    loops: Annotated[Mapping[str, int], _pair("Most iterations of a Loop.", SHAPES, "loop", "NODE=16", texts.LOOP)]

    context: Annotated[
        int | None,
        Option("Most tokens of a language model: prompt and answer; 2048 by default.", SHAPES, kind=int, metavar="N"),
    ]
    cache: Annotated[
        str | None,
        Option("What a language model stores keys and values as: fp32, fp16, int8; fp32 by default.", SHAPES),
    ]

    lora: Annotated[
        int | str | None,
        Option(
            "Room for low-rank adapters of a language model: largest rank, and products (default: all).", SHAPES,
            kind=str, metavar="RANK[:q,v]",
        ),
    ]  # fmt: skip

    chat_template: Annotated[
        str | Path | None,
        Option(
            "Chat template in Jinja in place of the model's; an empty file for none.", SHAPES, kind=Path,
            metavar="FILE", is_path=lambda value: True,
        ),
    ]  # fmt: skip

    pre: Annotated[
        str | None,
        Option(
            "Preprocessing inside the network: picture=FORMAT:HEIGHTxWIDTH (rgb8, bgr8, rgba8, bgra8, gray8, nv12), "
            "range=limited|full, matrix=bt601|bt709, or audio=logmel|mfcc:SAMPLES, rate=HZ, n_fft=, hop_length=...; "
            "input=NAME.", PICTURES, metavar="WORDS",
        ),
    ]  # fmt: skip
    picture: Annotated[
        str | None,
        Option(
            "Way from a picture to an input: fit=crop|stretch|pad, resize=N, filter=bilinear|bicubic|lanczos|nearest, "
            "order=rgb|bgr, scale=255, mean=A/B/C, std=A/B/C, fill=114, layout=first|last.", PICTURES, metavar="WORDS",
        ),
    ]  # fmt: skip
    sound: Annotated[str | None, Option("Way from a sound: rate=16000, part=first|middle.", PICTURES, metavar="WORDS")]

    quantize: Annotated[
        str,
        Option(
            "Numbers that matmuls compute with: float, int8, int8-dynamic, int4-weight, or mixed within --max-loss.",
            COMPRESSION, "float",
        ),
    ]  # fmt: skip
    calibrate: Annotated[
        str | Path | None,
        Option(
            "Inputs to compress by: an .npz, a folder of them, of pictures or of WAV files, or random.", COMPRESSION,
            metavar="PATH", is_path=lambda value: value != "random",
        ),
    ]  # fmt: skip
    observer: Annotated[
        str,
        Option("How ranges are found in them: best, minmax, percentile, mse, entropy.", COMPRESSION, "minmax"),
    ]
    max_loss: Annotated[
        str | None,
        Option(
            "Bound on what compression may lose: top1_drop, max_abs, max_rel, cosine.",
            COMPRESSION, metavar="FIGURE=BOUND",
        ),
    ]  # fmt: skip
    corrections: Annotated[
        str, Option("Corrections that may be applied: auto, none, equalize,smooth,gptq,bias.", COMPRESSION, "auto")
    ]
    prune: Annotated[
        str | None,
        Option("Zeros to leave out: vector, block=8x4, pattern=4of9, 2:4; or channel.", COMPRESSION, metavar="KIND"),
    ]
    sparsity: Annotated[
        float | str | None,
        Option("Share of zeros, or auto: as --max-loss allows.", COMPRESSION, metavar="SHARE", takes_number=True),
    ]
    prune_by: Annotated[str, Option("How zeros are chosen: obs, wanda, magnitude.", COMPRESSION, "obs")]
    masks: Annotated[
        str | Path | None,
        Option(
            "Weights that stay, as --write-masks writes them.", COMPRESSION, kind=Path, metavar="FILE",
            is_path=lambda value: True,
        ),
    ]  # fmt: skip

    retrain: Annotated[
        str | Path | None,
        Option(
            "After --prune or --quantize int8, learn the dense network's answers: an .npz of inputs.",
            COMPRESSION, kind=Path, metavar="FILE", is_path=lambda value: True,
        ),
    ]  # fmt: skip
    retrain_steps: Annotated[int, Option("Steps of --retrain.", COMPRESSION, 1000, int, metavar="N")]
    retrain_state: Annotated[
        str | Path | None,
        Option(
            "Save what --retrain has learned there, and go on from it.", COMPRESSION, kind=Path, metavar="FILE",
            is_path=lambda value: True, writes=True,
        ),
    ]  # fmt: skip
    augment: Annotated[
        str | None,
        Option("Changes to samples of --retrain at random: mirror, mix, zoom.", COMPRESSION, metavar="WORDS"),
    ]

    loss: Annotated[
        str | None,
        Option(
            "Train too: cross_entropy, mse, l1, bce, hinge or an ONNX file, and of which output, as in mse:logits.",
            TRAINING, metavar="LOSS", is_path=lambda value: value.partition(":")[0].endswith(".onnx"),
        ),
    ]  # fmt: skip
    update: Annotated[
        str,
        Option(
            "Weights that are trained: all, bias, norm, last:N (layers), lora=R (adapters), or nodes with commas.",
            TRAINING, "all", metavar="WEIGHTS",
        ),
    ]  # fmt: skip
    optimizer: Annotated[
        str,
        Option(
            "sgd, adam or adamw, as in sgd:lr=0.01,momentum=0.9,weight_decay=1e-4,clip=1.",
            TRAINING, "sgd", metavar="NAME",
        ),
    ]  # fmt: skip
    batch: Annotated[
        int | None,
        Option("Samples of a training step; those of the model by default.", TRAINING, kind=int, metavar="N"),
    ]
    accumulate: Annotated[
        int,
        Option("Training steps whose gradients change weights together, by their mean.", TRAINING, 1, int, metavar="N"),
    ]
    dropout: Annotated[
        str,
        Option(
            "Part that Dropout drops in training: model (what it says), or one for all, as in 0.1,seed=7.",
            TRAINING, "model", metavar="PART", takes_number=True,
        ),
    ]  # fmt: skip
    batch_norm: Annotated[
        str,
        Option(
            "Statistics of batch normalization in training: file (they stay), or batch (those of each batch).",
            TRAINING, "file", metavar="WHICH",
        ),
    ]  # fmt: skip

    numeric: Annotated[
        str,
        Option("What rules may change: exact, reassociates, approximates (or fast).", REWRITING, "reassociates"),
    ]
    fuse: Annotated[
        bool | str,
        Option(
            "What becomes one kernel: planner, fixed (patterns), operators, none.", REWRITING, "planner",
            write=lambda mode: {True: "planner", False: "none"}.get(mode, mode),
        ),
    ]  # fmt: skip
    profiles: Annotated[
        bool, Option("Let measured times decide where the profile database has them.", REWRITING, True, bool)
    ]
    disable_rules: Annotated[
        Sequence[str],
        Option("Do not apply this rule.", REWRITING, kind=list[str], metavar="RULE", flag="disable_rule"),
    ]
    materialize: Annotated[
        Sequence[str],
        Option(
            "Keep the result of this node in memory: it is not fused with its readers.",
            REWRITING, kind=list[str], metavar="NODE",
        ),
    ]  # fmt: skip
    overrides: Annotated[
        Mapping[str, str],
        _pair(
            "Take this variant where predicted times would choose (see explain).",
            REWRITING, "override", "'KIND NODE=VARIANT'", texts.OVERRIDE,
        ),
    ]  # fmt: skip
    tiles: Annotated[
        Mapping[str, tuple[int, int]],
        _pair("Rows and vectors of a matmul's register tile.", REWRITING, "tile", "NODE=8x3", texts.TILE),
    ]

    limits: Annotated[
        Mapping[str, float],
        _pair(
            "Most of what a stage may take: nodes, kernels, c_bytes, computed, seconds.",
            LIMITS,
            "limits",
            "NAME=MOST",
            texts.LIMIT,
        ),
    ]

    rules: Annotated[Folders, _folder("Folder of rewrite rules of your own.")]
    templates: Annotated[Folders, _folder("Folder of kernel templates of your own.")]
    micro_kernels: Annotated[Folders, _folder("Folder of micro-kernels of your own.")]
    devices: Annotated[Folders, _data("Folder of devices of your own.")]
    operators: Annotated[Folders, _folder("Folder of operators of your own.", "--ops")]


def _rows() -> dict[str, Option]:
    found = {}
    for key, hint in get_type_hints(Settings, localns={"Device": object}, include_extras=True).items():
        option = next(m for m in get_args(hint) if isinstance(m, Option))
        found[key] = replace(option, flag=option.flag or key)
    return found


#: Every option by its keyword.
OPTIONS: Mapping[str, Option] = _rows()
