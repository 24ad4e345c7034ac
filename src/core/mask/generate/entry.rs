//! Single entries, as templates write them: every way to select a GPU, and texts that resemble one.

use crate::mask::template::escape_brackets;
use crate::random::Random;

/// The form of the entries in a list: numbers or UUIDs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Identifier {
    Ordinal,
    Uuid,
}

/// Powers of two near the borders of 32 and 64 bits.
const POWERS: [u32; 7] = [31, 32, 33, 62, 63, 64, 65];

const BLANKS: [&str; 7] = [" ", "  ", "\t", "\n", "\u{b}", "\u{c}", "\r"];

/// Words that people have written, and texts that have a meaning elsewhere.
const WORDS: [&str; 30] = [
    "all",
    "none",
    "void",
    "NoDevFiles",
    "cpu",
    "gpu",
    "true",
    "null",
    "nan",
    "inf",
    "default",
    "any",
    "one",
    "x",
    "cuda:0",
    "gpu0",
    "nvidia.com/gpu=0",
    "0000:1b:00.0",
    "\"0\"",
    "'0'",
    "\"0",
    "[0]",
    "(0)",
    "{0}",
    "*",
    "$0",
    "#0",
    "${GPU}",
    "GPU",
    "device=0",
];

/// Text that may follow a number.
const TAILS: [&str; 24] = [
    "gpu", "a", "e1", "e9", "x0", ".0", ".5", "-1", "+1", "-", "_0", "'", ";1", ":1", "/0", "|1",
    " 1", "\n1", "\t", " ", "L", "u", "h", "é",
];

/// Text without a meaning, or with another meaning than its apparent one.
const FOREIGN: [&str; 16] = [
    "é",
    "ß",
    "Ж",
    "中",
    "０",
    "１",
    "٠",
    "①",
    "\u{a0}0",
    "\u{2003}0",
    "\u{200b}0",
    "\u{feff}0",
    "−1",
    "GPU‑",
    "0，1",
    "🙂",
];

pub(super) fn draw_identifier(random: &mut Random, gpu: usize, kind: Identifier) -> String {
    match kind {
        Identifier::Ordinal => draw_ordinal(random, gpu),
        Identifier::Uuid => uuid(random, gpu),
    }
}

/// Returns an entry that almost selects a GPU, in the same form as the other entries of its list.
pub(super) fn near_miss(random: &mut Random, gpus: usize, kind: Identifier) -> String {
    match kind {
        Identifier::Ordinal => number(random, gpus),
        Identifier::Uuid => nearly_uuid(random, gpus),
    }
}

/// Returns an entry of any kind that probably does not select a GPU.
pub(super) fn draw_stray(random: &mut Random, gpus: usize) -> String {
    match random.below(100) {
        0..34 => number(random, gpus),
        34..54 => nearly_uuid(random, gpus),
        54..64 => escape_brackets(random.pick(WORDS)),
        64..70 => draw_mig(random, gpus),
        70..77 => draw_blank(random),
        77..83 => control(random),
        83..90 => draw_foreign(random),
        90..95 => text(random),
        _ => String::new(),
    }
}

/// Returns an entry of any kind, valid or invalid.
pub(super) fn any(random: &mut Random, gpus: usize) -> String {
    if gpus == 0 || random.percent(50) {
        return draw_stray(random, gpus);
    }
    let (gpu, kind) = (
        random.below(gpus),
        random.pick([Identifier::Ordinal, Identifier::Ordinal, Identifier::Uuid]),
    );
    draw_identifier(random, gpu, kind)
}

/// Returns a GPU's index, in one of its many spellings.
fn draw_ordinal(random: &mut Random, gpu: usize) -> String {
    let mut value = i128::try_from(gpu).unwrap_or(0);
    if random.percent(15) {
        // The lower 32 bits stay as they are.
        let times = random.pick([
            1,
            -1,
            2,
            -2,
            3,
            1 << 16,
            -(1 << 16),
            (1 << 31) - 1,
            -(1 << 31),
        ]);
        value += times << 32;
    }
    let zeros = match random.below(100) {
        0..80 => 0,
        80..96 => random.between(1, 9),
        _ => random.between(10, 400),
    };
    let blanks: String = (0..if random.percent(20) {
        random.between(1, 3)
    } else {
        0
    })
        .map(|_| random.pick(BLANKS))
        .collect();
    let plus = random.pick(["", "", "", "+"]);
    let sign = if value < 0 {
        "-"
    } else if value == 0 {
        random.pick(["", "", "", "+", "-"])
    } else {
        plus
    };
    let tail = if random.percent(25) {
        random.pick(TAILS)
    } else {
        ""
    };
    format!(
        "{blanks}{sign}{}{}{tail}",
        "0".repeat(zeros),
        value.unsigned_abs()
    )
}

/// Returns a number near the limits of integers or of the list of GPUs, or far beyond.
fn number(random: &mut Random, gpus: usize) -> String {
    let tail = if random.percent(15) {
        random.pick(TAILS)
    } else {
        ""
    };
    let number = match random.below(100) {
        0..15 => (gpus + random.below(4)).to_string(),
        15..25 => random
            .pick([
                "9", "10", "16", "64", "99", "100", "255", "256", "1000", "65536",
            ])
            .to_string(),
        25..40 => format!("-{}", random.between(1, gpus + 2)),
        40..75 => near_a_power(random, gpus),
        75..82 => draw_digits(random, 1, 40),
        82..87 => draw_digits(random, 100, 400),
        87..94 => format!(
            "{}{}",
            random.pick([
                "--", "+-", "-+", "++", "- ", "+ ", "-\t", "~", "!", "\\", "."
            ]),
            random.below(gpus + 1)
        ),
        _ => format!(
            "{}{}",
            random.pick(["+", "-", ".", "-.", "e", "+e"]),
            random.pick(["", "e1", "x1"])
        ),
    };
    format!("{number}{tail}")
}

/// Returns a number near 2^31, 2^32, 2^63 or 2^64. Some of these are valid indices.
fn near_a_power(random: &mut Random, gpus: usize) -> String {
    let near = i128::try_from(random.between(0, gpus + 2)).unwrap_or(0) - 2;
    let value = (1i128 << random.pick(POWERS)) * random.pick([1, 1, 1, 2, 3]) + near;
    format!("{}{value}", random.pick(["", "", "-", "+"]))
}

fn draw_digits(random: &mut Random, least: usize, most: usize) -> String {
    let count = random.between(least, most);
    (0..count)
        .map(|_| random.pick(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']))
        .collect()
}

/// Returns a GPU's UUID, complete or shortened to digits that are still unique.
fn uuid(random: &mut Random, gpu: usize) -> String {
    let form = random.pick(["uuid", "uuid", "uuid", "UUID"]);
    let written = match random.below(100) {
        0..40 => format!("<{form}{gpu}>"),
        40..60 => format!("<{form}{gpu}:unique>"),
        60..70 => format!("<{form}{gpu}:12>"),
        _ => format!("<{form}{gpu}:{}>", random.between(13, 39)),
    };
    let blanks = if random.percent(15) {
        random.between(1, 3)
    } else {
        0
    };
    format!("{written}{}", " ".repeat(blanks))
}

fn nearly_uuid(random: &mut Random, gpus: usize) -> String {
    let gpu = random.below(gpus.max(1));
    match random.below(20) {
        0 => format!("<uuid{gpu}:shared>"),
        1 => format!("<bare{gpu}>"),
        2 => format!("<bare{gpu}:{}>", random.between(1, 12)),
        3 => format!(
            "{}<bare{gpu}>",
            random.pick([
                "gpu-", "Gpu-", "GPU", "GPU_", "GPU--", "GPU- ", "GPU:", "UUID-", "GPU-GPU-"
            ])
        ),
        4 => format!("<flat{gpu}>"),
        5 => format!(
            "<uuid{gpu}>{}",
            random.pick([
                "0", "f", "x", "-", ".", "\t", "\n", " x", ";", "/0", "\"", "é", "\r"
            ])
        ),
        6 => format!(
            "<uuid{gpu}:{}>{}",
            random.between(12, 39),
            random.pick(["x", "g", "--", "\t", "*", "...", "é"])
        ),
        // Whitespace after the comma, as in lists of numbers.
        16.. => format!(" <uuid{gpu}>"),
        7 => format!(
            "{}<uuid{gpu}>",
            random.pick([
                " ", " ", " ", "  ", "\t", "\n", "\"", "0", "-", "é", "\u{feff}"
            ])
        ),
        8 => format!("<uuid{gpu}:{}> <bare{gpu}>", random.between(5, 20)),
        9 => format!("<uuid{gpu}:12>-0000-0000-0000-000000000000"),
        10 => format!("<uuid{gpu}:39>{}", random.pick(["g", "G", " 0", "?"])),
        11 => random
            .pick([
                "GPU-", "GPU", "gpu-", "GPU- ", "GPU-,", "GPU--", "G", "GP", "GPU-g", "GPU-*",
            ])
            .to_string(),
        12 => "GPU-00000000-0000-0000-0000-000000000000".to_string(),
        13 => format!("GPU-{gpu}"),
        14 => format!("\"<uuid{gpu}>\""),
        _ => format!("UUID<uuid{gpu}>"),
    }
}

fn draw_mig(random: &mut Random, gpus: usize) -> String {
    let gpu = random.below(gpus.max(1));
    match random.below(6) {
        0 => format!("MIG-<uuid{gpu}>/{}/{}", random.below(8), random.below(2)),
        1 => format!("MIG-<bare{gpu}>"),
        2 => "MIG-00000000-0000-0000-0000-000000000000".to_string(),
        3 => format!("<uuid{gpu}>/1/0"),
        4 => format!("{gpu}:{}", random.below(7)),
        _ => random.pick(["MIG-", "MIG", "mig-", "MIG-GPU-"]).to_string(),
    }
}

fn draw_blank(random: &mut Random) -> String {
    (0..random.between(1, 4))
        .map(|_| random.pick(BLANKS))
        .collect()
}

/// Returns an invisible character, alone or around a number.
fn control(random: &mut Random) -> String {
    let code = u8::try_from(random.between(1, 32)).unwrap_or(1);
    let hidden = char::from(if code == 32 { 127 } else { code });
    match random.below(3) {
        0 => hidden.to_string(),
        1 => format!("{hidden}{}", random.below(2)),
        _ => format!("{}{hidden}", random.below(2)),
    }
}

fn draw_foreign(random: &mut Random) -> String {
    let text = random.pick(FOREIGN);
    match random.below(4) {
        0 => format!("{}{text}", random.below(2)),
        1 => format!("{text}{}", random.below(2)),
        _ => text.to_string(),
    }
}

/// Returns visible ASCII characters; a comma among them makes several entries.
fn text(random: &mut Random) -> String {
    let letters = random.between(1, 12);
    escape_brackets(
        &(0..letters)
            .map(|_| char::from(b' ' + u8::try_from(random.below(95)).unwrap_or(0)))
            .collect::<String>(),
    )
}
