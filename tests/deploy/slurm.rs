//! The files of `deploy/slurm` on a real Slurm: three nodes on this machine, with the simulated machine as their
//! GPUs. Where Slurm is not installed each trial is ignored, with what is missing.

mod cluster;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cuda_pitfalls::verdict::Provenance;
use serde_json::Value;

use crate::common::trials::Test;
use crate::common::{PROGRAM, as_if_measured, eventually, read_json, root, script};
use cluster::Cluster;

/// Longer than a node takes for these tests.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) fn tests() -> Vec<Test> {
    let missing = cluster::missing();
    let tests: [(&str, fn()); 5] = [
        ("every_node_has_a_report", every_node_has_a_report),
        (
            "a_job_that_is_cancelled_keeps_what_it_has",
            a_job_that_is_cancelled_keeps_what_it_has,
        ),
        (
            "a_node_that_is_lost_is_missing",
            a_node_that_is_lost_is_missing,
        ),
        (
            "a_health_check_comments_its_node",
            a_health_check_comments_its_node,
        ),
        (
            "a_health_check_drains_only_if_told_to",
            a_health_check_drains_only_if_told_to,
        ),
    ];
    tests
        .map(|(name, run)| Test {
            name,
            missing: missing.clone(),
            run,
        })
        .into()
}

/// Returns the names of the files below a directory, at any depth, hidden ones too.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(
                files(&entry.path())
                    .into_iter()
                    .map(|file| format!("{name}/{file}")),
            );
        } else {
            found.insert(name);
        }
    }
    found
}

/// Submits the audit of all three nodes.
fn audit(cluster: &Cluster, arguments: &[&str]) -> u32 {
    let job = root().join("deploy/slurm/audit.sbatch");
    let (job, out) = (
        job.to_string_lossy().into_owned(),
        cluster.path().join("out").to_string_lossy().into_owned(),
    );
    cluster.submit(
        &[
            &[
                "--nodes=3",
                "--gpus-per-node=2",
                &job,
                &out,
                "--on",
                "sim:h200-x2",
            ][..],
            arguments,
        ]
        .concat(),
    )
}

/// Returns the names of the reports of these nodes, and of the files next to them.
fn expected(nodes: &[&str]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = nodes
        .iter()
        .map(|node| format!("reports/{node}.json"))
        .collect();
    names.insert("hosts.txt".into());
    names.insert("fleet.json".into());
    names
}

/// Checks which machines are missing from the merged document.
fn merged(folder: &Path, machines: usize, missing: &[&str]) {
    let fleet: Value = read_json(folder.join("fleet.json"));
    assert_eq!(
        fleet["machines"].as_array().map(Vec::len),
        Some(machines),
        "{fleet}"
    );
    assert_eq!(
        fleet["expected"]["missing"],
        serde_json::json!(missing),
        "{fleet}"
    );
}

fn every_node_has_a_report() {
    let cluster = Cluster::start(3, |at| {
        script(
            &at.join("program"),
            &format!("#!/bin/sh\nexec {PROGRAM} \"$@\"\n"),
        );
        String::new()
    });
    let job = audit(
        &cluster,
        &["visibility/empty-mask-hides-all", "--repeat", "1"],
    );
    assert_eq!(cluster.ended(job), "COMPLETED 0:0", "{}", cluster.logs());
    let folder = cluster.path().join("out").join(job.to_string());
    assert_eq!(files(&folder), expected(&["node1", "node2", "node3"]));
    assert_eq!(
        fs::read_to_string(folder.join("hosts.txt")).expect("it is there"),
        "node1\nnode2\nnode3\n"
    );
    for node in ["node1", "node2", "node3"] {
        let report = cuda_pitfalls::report::read(&folder.join(format!("reports/{node}.json")))
            .expect("a report");
        assert_eq!(
            report.run.labels.get("node").map(String::as_str),
            Some(node)
        );
        assert!(report.complete && report.provenance == Provenance::Simulated);
    }
    merged(&folder, 3, &[]);
    assert!(
        cluster.logs().contains("3 of 3 nodes have a report"),
        "{}",
        cluster.logs()
    );
    cluster.end();
}

/// Returns a cluster with an audit of this many attempts, and its job, when these nodes have answered a question.
fn in_the_middle(nodes: &[&str], attempts: &str) -> (Cluster, u32) {
    let cluster = Cluster::start(3, |at| {
        script(
            &at.join("program"),
            &format!("#!/bin/sh\nexec {PROGRAM} \"$@\"\n"),
        );
        // Each node has its own folder for temporary files, as each machine has.
        let tmp = at.join("tmp/$SLURMD_NODENAME").display().to_string();
        script(
            &at.join("task"),
            &format!("#!/bin/sh\nmkdir -p {tmp}\necho export TMPDIR={tmp}\n"),
        );
        format!("TaskProlog={}/task\n", at.display())
    });
    let job = audit(
        &cluster,
        &[
            "visibility/empty-mask-hides-all",
            "visibility/uuid-*",
            "--repeat",
            attempts,
        ],
    );
    let tmp = cluster.path().join("tmp");
    for node in nodes {
        eventually(&format!("{node} has answered a question"), LONGEST, || {
            let file = files(&tmp.join(node))
                .into_iter()
                .find(|file| file.ends_with("report.json"))?;
            // The report exists before the first answer.
            let report = cuda_pitfalls::report::read(&tmp.join(node).join(file)).ok()?;
            (!report.scenarios.is_empty()).then_some(())
        });
    }
    (cluster, job)
}

fn a_job_that_is_cancelled_keeps_what_it_has() {
    let nodes = ["node1", "node2", "node3"];
    let (cluster, job) = in_the_middle(&nodes, "50");
    // At a time limit the same happens: SIGTERM, and SIGKILL after KillWait.
    cluster.ask(&["scancel", &job.to_string()]);
    let folder = cluster.path().join("out").join(job.to_string());
    eventually("each node has kept its report", LONGEST, || {
        nodes
            .iter()
            .all(|node| folder.join(format!("reports/{node}.json")).exists())
            .then_some(())
    });
    for node in nodes {
        let report = cuda_pitfalls::report::read(&folder.join(format!("reports/{node}.json")))
            .expect("a report");
        assert!(
            !report.complete && !report.scenarios.is_empty(),
            "{node}: {:?}",
            report.run.interrupted
        );
    }
    cluster.end();
}

fn a_node_that_is_lost_is_missing() {
    let (mut cluster, job) = in_the_middle(&["node3"], "5");
    cluster.kill("node3");
    let ended = cluster.ended(job);
    assert_eq!(ended, "FAILED 3:0", "inconclusive\n{}", cluster.logs());
    let folder = cluster.path().join("out").join(job.to_string());
    assert_eq!(
        files(&folder),
        expected(&["node1", "node2"]),
        "{}",
        cluster.logs()
    );
    assert_eq!(
        fs::read_to_string(folder.join("hosts.txt")).expect("it is there"),
        "node1\nnode2\nnode3\n"
    );
    for node in ["node1", "node2"] {
        let report = cuda_pitfalls::report::read(&folder.join(format!("reports/{node}.json")))
            .expect("a report");
        assert!(report.complete, "{node} goes on when another node is lost");
    }
    merged(&folder, 2, &["node3"]);
    assert!(
        cluster.logs().contains("no report from node3\n"),
        "{}",
        cluster.logs()
    );
    assert!(
        cluster.logs().contains("2 of 3 nodes have a report"),
        "{}",
        cluster.logs()
    );
    cluster.end();
}

/// Writes the settings of each node's check into a file that a test can change.
fn configure(at: &Path, node: &str, scenario: &str, action: &str) {
    let program = at.join("measured");
    if !program.exists() {
        as_if_measured(&program, "");
    }
    let conf = format!(
        "CUDA_PITFALLS={}\nCUDA_PITFALLS_ARGUMENTS=\"{} --on sim:h200-x1 --repeat 1\"\n\
         CUDA_PITFALLS_STATE={}/state-of-{node}\nCUDA_PITFALLS_ACTION={action}\n",
        program.display(),
        root().join(scenario).display(),
        at.display(),
    );
    fs::write(at.join(format!("{node}.conf")), conf).expect("a file of our own");
}

/// Lines of slurm.conf that have Slurm call the health check every few seconds.
fn health_check(at: &Path) -> String {
    let check = root().join("deploy/slurm/health-check");
    let text = format!(
        "#!/bin/sh\nexport SLURM_CONF={0}/slurm.conf CUDA_PITFALLS_CONF={0}/$SLURMD_NODENAME.conf TMPDIR={0}/tmp\nexec {1} >> {0}/log/health 2>&1\n",
        at.display(),
        check.display()
    );
    script(&at.join("health"), &text);
    format!(
        "HealthCheckProgram={}/health\nHealthCheckInterval=2\n",
        at.display()
    )
}

/// Waits until a whole health check of this node has run: from the start of one to the start of the next but one.
fn checked(cluster: &Cluster, node: &str) {
    let status = cluster.path().join(format!("state-of-{node}/status"));
    for _ in 0..2 {
        fs::remove_file(&status).expect("the check has written it");
        eventually("the check has run again", LONGEST, || {
            status.exists().then_some(())
        });
    }
}

const AS_EXPECTED: &str = "tests/selftest/clean.toml";
const NOT_AS_EXPECTED: &str = "tests/deploy/slurm/not-as-expected.toml";

fn a_health_check_comments_its_node() {
    let cluster = Cluster::start(3, |at| {
        configure(at, "node1", AS_EXPECTED, "comment");
        configure(at, "node2", NOT_AS_EXPECTED, "comment");
        configure(at, "node3", NOT_AS_EXPECTED, "comment");
        health_check(at)
    });
    let comment = |node: &str| cluster.field(node, "Comment").unwrap_or_default();
    let commented = "cuda-pitfalls: 1/1 unexpected: reproduced, slurm/not-as-expected";
    eventually("node2 has a comment", LONGEST, || {
        (comment("node2") == commented).then_some(())
    });
    assert_eq!(comment("node1"), "");
    // Somebody else's.
    cluster.ask(&[
        "scontrol",
        "update",
        "nodename=node3",
        "comment=fan 4 is loud",
    ]);
    configure(cluster.path(), "node2", AS_EXPECTED, "comment");
    checked(&cluster, "node3");
    eventually("node2 has none any more", LONGEST, || {
        comment("node2").is_empty().then_some(())
    });
    assert_eq!(comment("node3"), "fan 4 is loud");
    let states = cluster.ask(&["sinfo", "--Node", "--noheader", "--format=%T"]);
    assert!(states.lines().all(|state| state == "idle"), "{states}");
    cluster.end();
}

fn a_health_check_drains_only_if_told_to() {
    let cluster = Cluster::start(2, |at| {
        configure(at, "node1", NOT_AS_EXPECTED, "drain");
        configure(at, "node2", NOT_AS_EXPECTED, "none");
        health_check(at)
    });
    let state = |node: &str| cluster.field(node, "State").unwrap_or_default();
    eventually("node1 is drained", LONGEST, || {
        cluster
            .field("node1", "State")?
            .contains("DRAIN")
            .then_some(())
    });
    let reason = cluster.field("node1", "Reason").unwrap_or_default();
    assert!(
        reason.starts_with("cuda-pitfalls: 1/1 unexpected"),
        "{reason}"
    );
    assert!(!state("node2").contains("DRAIN"), "{}", state("node2"));
    configure(cluster.path(), "node1", AS_EXPECTED, "drain");
    eventually("node1 is back", LONGEST, || {
        (!state("node1").contains("DRAIN")).then_some(())
    });
    // A node that somebody else drained stays drained.
    cluster.ask(&[
        "scontrol",
        "update",
        "nodename=node1",
        "state=drain",
        "reason=fan 4 is loud",
    ]);
    checked(&cluster, "node1");
    assert!(state("node1").contains("DRAIN"), "{}", state("node1"));
    cluster.end();
}
