//! The controls of the instrument: lines whose behaviour is known, because they call CUDA by ctypes. If a control shows
//! anything else, no row can be trusted.

use super::{INSTRUMENT, PythonLine, PythonRow};

const OPEN: &str = "import ctypes\nlibcuda = ctypes.CDLL(\"libcuda.so.1\")";
const RETAIN: &str = "libcuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), ";

/// A line, and what its row must show.
pub struct Control {
    /// The line.
    pub line: PythonLine,
    /// What its row must show.
    shows: ControlFacts,
}

/// What a control's row must show.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ControlFacts {
    initialised_before: bool,
    calls_cuinit: Option<bool>,
    /// `None` if it is unknown whether `cuInit` succeeds.
    reads_mask: Option<Option<bool>>,
    context_on: Vec<u32>,
}

impl Control {
    /// The row, with the result of the control.
    pub fn held(&self, row: PythonRow) -> PythonRow {
        let ControlFacts { initialised_before, calls_cuinit, reads_mask, context_on } = &self.shows;
        let is_shown = row.standing.unmeasured.is_none()
            && row.initialised_before == Some(*initialised_before)
            && row.calls_cuinit == *calls_cuinit
            && reads_mask.is_none_or(|reads_mask| row.reads_mask == reads_mask)
            && row.context_on.as_ref() == Some(context_on);
        PythonRow { as_expected: Some(is_shown), ..row }
    }
}

/// The controls for processes that see these GPUs, as NVML indices in the order of a mask or of `PCI_BUS_ID`.
pub fn controls(visible: &[u32]) -> Vec<Control> {
    let line = |id: &str, before: &[&str], ask: String| PythonLine {
        id: format!("{INSTRUMENT}: {id}"),
        framework: INSTRUMENT.to_string(),
        before: before.iter().map(|line| (*line).to_string()).collect(),
        ask,
        env: [("CUDA_DEVICE_ORDER".to_string(), "PCI_BUS_ID".to_string())].into(),
        ..PythonLine::default()
    };
    let nothing = ControlFacts {
        initialised_before: false,
        calls_cuinit: Some(false),
        reads_mask: Some(Some(false)),
        context_on: vec![],
    };
    let can_succeed = !visible.is_empty();
    let init = ControlFacts {
        calls_cuinit: Some(true),
        reads_mask: Some(Some(true)).filter(|_| can_succeed),
        ..nothing.clone()
    };
    let mut all = vec![
        Control { line: line("a line without CUDA", &[], "sum(range(10))".to_string()), shows: nothing },
        Control { line: line("cuInit", &[OPEN], "libcuda.cuInit(0)".to_string()), shows: init },
    ];
    if let Some((ordinal, gpu)) = visible.iter().enumerate().next_back() {
        let shows = ControlFacts {
            initialised_before: true,
            calls_cuinit: None,
            reads_mask: Some(None),
            context_on: vec![*gpu],
        };
        let line = line("a context on the last GPU", &[OPEN, "libcuda.cuInit(0)"], format!("{RETAIN}{ordinal})"));
        all.push(Control { line, shows });
    }
    all
}
