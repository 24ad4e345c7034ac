//! The container, pod, job or service of a process, by its control groups. The kernel names them; only where they say
//! nothing, the variables of the process count, which the process can change.

use schemars::JsonSchema;
use serde::Serialize;

use cuda_pitfalls_core::holding::{JOB_VARIABLES, ProcessExamination};

/// What a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HolderPlace {
    /// What it is.
    pub kind: PlaceKind,
    /// The identifier; of a container the first 12 digits.
    pub id: String,
    /// `true` if only a variable of the process says so, or if a user of the machine or of its container chose the name.
    pub is_claimed: bool,
}

/// What a process can belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// A pod of Kubernetes, by its UID.
    Pod,
    /// A container.
    Container,
    /// A job of Slurm or of another batch system.
    Job,
    /// A service of systemd.
    Service,
}

/// Length of a container's identifier, and of its usual short form.
const CONTAINER_ID: (usize, usize) = (64, 12);

/// Length of the shortest UID of a pod: that of a static pod has no dashes.
const SHORTEST_POD: usize = 32;

/// Parts of the names of groups below which others choose the names: users below their own service manager, and root of
/// a container of LXC or of systemd-nspawn.
const DELEGATED: [&str; 3] = ["/user@", "/lxc", "/payload/"];

/// Returns the identifier in the name of a control group.
type FindId = fn(&str) -> Option<String>;

/// The ways to find an identifier in the name of a control group, the most exact first.
const FINDERS: [(PlaceKind, FindId); 4] = [
    (PlaceKind::Job, job),
    (PlaceKind::Pod, pod),
    (PlaceKind::Container, container),
    (PlaceKind::Service, service),
];

/// Returns what a process belongs to; `None` if nothing is known.
pub(super) fn place_of(process: &ProcessExamination) -> Option<HolderPlace> {
    for (kind, find) in FINDERS {
        for group in &process.control_groups {
            if let Some(id) = find(outside_of_container(group)) {
                return Some(HolderPlace {
                    kind,
                    id,
                    is_claimed: DELEGATED.iter().any(|part| group.contains(part)),
                });
            }
        }
    }
    let variables = process.started_with.as_ref()?;
    let id = JOB_VARIABLES.iter().find_map(|name| variables.get(*name))?;
    Some(HolderPlace {
        kind: PlaceKind::Job,
        id: id.chars().take(32).collect(),
        is_claimed: true,
    })
}

/// Returns a control group without those inside of its outermost container, which can name them as it likes.
fn outside_of_container(group: &str) -> &str {
    let mut end = 0;
    for part in group.split_inclusive('/') {
        end += part.len();
        if container(part.trim_end_matches('/')).is_some() {
            break;
        }
    }
    group.get(..end).unwrap_or(group)
}

/// `/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0`, or `/slurm/uid_1000/job_4711/step_0`.
fn job(group: &str) -> Option<String> {
    if !group.contains("slurm") {
        return None;
    }
    let mut parts = group.split('/');
    let id = parts.find_map(|part| part.strip_prefix("job_"))?;
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| id.to_owned())
}

/// `/kubepods.slice/kubepods-pod1b2c….slice/cri-containerd-….scope`, or `/kubepods/burstable/pod1b2c-…/…`.
fn pod(group: &str) -> Option<String> {
    let (_, below) = group.split_once("kubepods")?;
    for part in below.split('/') {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let Some((_, id)) = part.rsplit_once("pod") else {
            continue;
        };
        let id = id.replace('_', "-");
        if id.len() >= SHORTEST_POD {
            return Some(id);
        }
    }
    None
}

/// `/docker/0123…`, `/system.slice/docker-0123….scope`, `/machine.slice/libpod-0123….scope`.
fn container(group: &str) -> Option<String> {
    let (all, shown) = CONTAINER_ID;
    for part in group.rsplit('/') {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        let id = part.rsplit('-').next().unwrap_or(part);
        if id.len() == all && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Some(id.get(..shown)?.to_owned());
        }
    }
    None
}

/// `/system.slice/vllm.service`.
fn service(group: &str) -> Option<String> {
    let mut parts = group.rsplit('/');
    let name = parts.find_map(|part| part.strip_suffix(".service"))?;
    // The manager of a user, which everything of a login belongs to.
    let is_manager = name.starts_with("user@");
    (!is_manager).then(|| name.to_owned())
}
