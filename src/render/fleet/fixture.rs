//! Fleets for tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test makes is known"
)]

use cuda_pitfalls_answers::fleet::{
    Bucket, ByteSpread, CaseChange, Difference, ExpectedMachines, FactDiffers, Fleet, FleetMachine,
    Group, GroupOutcome, Input, Key, NotMerged, Question, SCHEMA, Usual, What,
};
use cuda_pitfalls_core::fact::{Change, Fact, Token};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::{Kind, Provenance};

/// Text with everything that a document must not do to its reader.
pub const EVIL: &str =
    "=1+1\u{1b}[31m\u{202e}</script><img src=x onerror=alert(1)>\"'|`]\r\n::error::x";

fn machine(name: &str, place: usize) -> FleetMachine {
    FleetMachine {
        name: name.to_owned(),
        labels: [
            ("node".to_owned(), name.to_owned()),
            ("rack".to_owned(), format!("r{}", place / 40)),
        ]
        .into(),
        gpus: (0..2)
            .map(|gpu| format!("GPU-{place:08x}-0000-4000-8000-00000000000{gpu}"))
            .collect(),
        reports: vec![format!("reports/{name}.json")],
        started_at: "2026-11-20T17:49:29Z".to_owned(),
        verdicts: [(Kind::Reproduced, 20), (Kind::NotReproduced, 6)].into(),
        ..FleetMachine::default()
    }
}

fn key(libcudart: &str) -> Key {
    Key {
        gpus: "2x NVIDIA H200".to_owned(),
        driver: "580.159.04".to_owned(),
        libcudart: libcudart.to_owned(),
        ..Key::default()
    }
}

fn contexts(gpus: &[&str]) -> Change {
    let gpus = gpus.iter().map(|gpu| (*gpu).to_owned()).collect();
    let facts = vec![
        Fact::Status(Token::Text("cudaSuccess".to_owned())),
        Fact::Contexts(Some(gpus)),
    ];
    Change {
        step: 2,
        label: "cudaSetDevice".to_owned(),
        facts,
    }
}

fn outcome(kind: Kind, machines: usize) -> GroupOutcome {
    let fact = CaseChange {
        case: "trap".to_owned(),
        outcome: 1,
        change: contexts(&["gpu1"]),
    };
    GroupOutcome {
        kind,
        facts: vec![fact],
        machines,
    }
}

fn usual(question: usize, outcomes: Vec<GroupOutcome>) -> Usual {
    Usual {
        question,
        outcomes,
        ..Usual::default()
    }
}

fn figures(bytes: i64, count: usize) -> ByteSpread {
    ByteSpread {
        count,
        median_bytes: bytes,
        mad_bytes: 0,
        least_bytes: bytes,
        most_bytes: bytes,
    }
}

/// Returns a different outcome.
fn differs(
    question: usize,
    machines: Vec<usize>,
    usual_machines: usize,
    verdict_differs: bool,
) -> Difference {
    let fact = FactDiffers {
        case: "trap".to_owned(),
        outcome: 1,
        usual: Some(contexts(&["gpu1"])),
        these: Some(contexts(&[])),
    };
    let what = What::Outcome {
        outcome: 1,
        verdict_differs,
        facts: vec![fact],
    };
    Difference {
        group: 0,
        question,
        machines,
        usual_machines,
        is_split: false,
        what,
    }
}

fn document(
    machines: Vec<FleetMachine>,
    questions: Vec<Question>,
    groups: Vec<Group>,
    found: Vec<Difference>,
) -> Fleet {
    let merged = machines.len() as u64;
    Fleet {
        schema: SchemaId::current(SCHEMA),
        provenance: Provenance::Measured,
        version: "0.1.0".to_owned(),
        input: Input {
            documents: merged + 2,
            buckets: [
                (Bucket::Merged, merged),
                (Bucket::Duplicate, 1),
                (Bucket::Truncated, 1),
            ]
            .into(),
            not_merged: vec![NotMerged {
                path: "reports/node-9.json".to_owned(),
                bucket: Bucket::Truncated,
                why: "it ends in the middle".to_owned(),
            }],
            from: Some("2026-11-20T17:49:29Z".to_owned()),
            to: Some("2026-11-20T18:02:11Z".to_owned()),
        },
        machines,
        questions,
        groups,
        differences: found,
        ..Fleet::default()
    }
}

fn question(name: &str, question: &str, page: Option<&str>) -> Question {
    let is_row = question.is_empty();
    Question {
        name: name.to_owned(),
        question: question.to_owned(),
        page: page.map(str::to_owned),
        is_row,
    }
}

/// Returns six machines in two groups: one difference of each kind, one machine alone in its group, and a missing one.
pub fn fleet() -> Fleet {
    let machines = (1..=6)
        .map(|place| machine(&format!("node-{place}"), place))
        .collect();
    let questions = vec![
        question(
            "context/set-device-is-eager",
            "Does cudaSetDevice alone make a context?",
            Some("pitfalls/context/set-device-is-eager.md"),
        ),
        question(
            "memory/malloc-granularity",
            "Is a small cudaMalloc charged as 2 MiB?",
            None,
        ),
        question(
            "visibility/mask-after-count",
            "Does a mask set after a device count have an effect?",
            None,
        ),
        question("survey calls: cudaMalloc", "", None),
    ];
    let mut unanswered = usual(3, vec![outcome(Kind::Reproduced, 4)]);
    unanswered.no_answer = vec![3];
    let both = |kind| vec![outcome(kind, 4), outcome(Kind::NotReproduced, 1)];
    let mut bytes = usual(1, vec![outcome(Kind::Reproduced, 5)]);
    bytes
        .used_bytes
        .insert("trap/gpu0".to_owned(), figures(2 << 20, 5));
    let first = vec![
        usual(0, both(Kind::Reproduced)),
        bytes,
        usual(2, both(Kind::NotReproduced)),
        unanswered,
    ];
    let alone = vec![usual(0, vec![outcome(Kind::NotReproduced, 1)])];
    let groups = vec![
        Group {
            key: key("13.0"),
            machines: (0..5).collect(),
            usual: first,
        },
        Group {
            key: key("11.8"),
            machines: vec![5],
            usual: alone,
        },
    ];
    let differences = vec![
        Difference {
            group: 0,
            question: 1,
            machines: vec![4],
            usual_machines: 4,
            is_split: false,
            what: What::Bytes {
                figure: "trap/gpu0".to_owned(),
                usual: figures(2 << 20, 4),
                these: figures(530 << 20, 1),
            },
        },
        differs(2, vec![1], 4, false),
        Difference {
            group: 0,
            question: 3,
            machines: vec![3],
            usual_machines: 4,
            is_split: false,
            what: What::NoAnswer {
                reasons: [("contaminated".to_owned(), 1)].into(),
            },
        },
        differs(0, vec![2], 4, true),
    ];
    let mut fleet = document(machines, questions, groups, differences);
    fleet.expected = Some(ExpectedMachines {
        machines: 7,
        missing: vec!["node-7".to_owned()],
        unexpected: vec!["node-6".to_owned()],
    });
    fleet.ranked()
}

/// Returns a fleet whose texts are all hostile, and whose locations lead nowhere.
pub fn hostile() -> Fleet {
    let mut fleet = fleet();
    fleet.version = EVIL.to_owned();
    for machine in &mut fleet.machines {
        machine.name = format!("{EVIL}{}", machine.name);
        machine.labels.insert(EVIL.to_owned(), EVIL.to_owned());
        machine.gpus.push(EVIL.to_owned());
        machine.reports.push(EVIL.to_owned());
        machine.warnings.push(EVIL.to_owned());
        machine.started_at = EVIL.to_owned();
        machine.conflicts.push(EVIL.to_owned());
    }
    if let Some(machine) = fleet.machines.first_mut() {
        machine.no_cuda = Some(EVIL.to_owned());
    }
    for question in &mut fleet.questions {
        question.name = format!("{EVIL}{}", question.name);
        question.question = EVIL.to_owned();
        question.page = Some(format!("){EVIL}"));
    }
    for group in &mut fleet.groups {
        let Key {
            gpus,
            driver,
            libcudart,
            mig,
            shared,
            ..
        } = &mut group.key;
        // A document with two identical groups is rejected.
        [gpus, driver, libcudart]
            .into_iter()
            .for_each(|text| text.insert_str(0, EVIL));
        (*mig, *shared) = (true, true);
        group.machines.push(usize::MAX);
        group.usual.push(usual(usize::MAX, Vec::new()));
    }
    for difference in &mut fleet.differences {
        if let What::Outcome { outcome, facts, .. } = &mut difference.what {
            *outcome = usize::MAX;
            let evil = Some(Change {
                step: 1,
                label: EVIL.into(),
                facts: vec![Fact::Current(Some(EVIL.into()))],
            });
            facts.push(FactDiffers {
                case: EVIL.into(),
                outcome: 1,
                usual: evil.clone(),
                these: evil,
            });
        }
    }
    let mut lost = differs(usize::MAX, vec![usize::MAX], usize::MAX / 2, true);
    lost.group = usize::MAX;
    fleet.differences.push(lost);
    let extreme = ByteSpread {
        count: 0,
        median_bytes: i64::MIN,
        mad_bytes: -1,
        least_bytes: i64::MAX,
        most_bytes: 0,
    };
    fleet.differences.push(Difference {
        group: 0,
        question: 0,
        machines: Vec::new(),
        usual_machines: 0,
        is_split: false,
        what: What::Bytes {
            figure: EVIL.into(),
            usual: figures(i64::MAX, 0),
            these: extreme,
        },
    });
    fleet.input.from = Some(EVIL.to_owned());
    fleet.input.to = Some("not a time".to_owned());
    if let Some(expected) = &mut fleet.expected {
        expected.missing.push(EVIL.to_owned());
        expected.unexpected.push(EVIL.to_owned());
    }
    for one in &mut fleet.input.not_merged {
        one.path = EVIL.to_owned();
        one.why = EVIL.to_owned();
    }
    fleet
}

/// Returns a fleet of this many machines and questions, in three groups; one machine in fifty differs in some question.
pub fn large(machines: usize, questions: usize) -> Fleet {
    let all: Vec<FleetMachine> = (0..machines)
        .map(|place| machine(&format!("gpu-{place:05}"), place))
        .collect();
    let asked = |place| {
        question(
            &format!("context/question-{place:03}-of-many"),
            "Does it make a context?",
            None,
        )
    };
    let mut groups: Vec<Group> = (0..3)
        .map(|group| Group {
            key: key(["13.0", "12.9", "11.8"].get(group).unwrap_or(&"")),
            machines: (0..machines)
                .filter(|place| place * 7 % 10 % 3 == group)
                .collect(),
            usual: Vec::new(),
        })
        .collect();
    let mut differences = Vec::new();
    for (place, group) in groups.iter_mut().enumerate() {
        for question in 0..questions {
            // The number per hundred thousand differs from question to question.
            let is_other = |machine: &&usize| (*machine * 7919 + question * 104_729) % 10_007 < 2;
            let those: Vec<usize> = group.machines.iter().filter(is_other).copied().collect();
            let rest = group.machines.len() - those.len();
            let mut one = usual(question, vec![outcome(Kind::Reproduced, rest)]);
            one.not_asked = group
                .machines
                .iter()
                .filter(|machine| (*machine + question) % 97 == 0)
                .copied()
                .collect();
            if !those.is_empty() {
                one.outcomes.push(outcome(Kind::NotReproduced, those.len()));
                let mut found = differs(question, those, rest, question % 3 == 0);
                found.group = place;
                differences.push(found);
            }
            group.usual.push(one);
        }
    }
    document(
        all,
        (0..questions).map(asked).collect(),
        groups,
        differences,
    )
}
