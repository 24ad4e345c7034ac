//! The controls of the instrument: lines with known behavior, because they call CUDA with ctypes. If a control shows
//! anything else, no row can be trusted.

use super::{INSTRUMENT, PythonFacts, PythonLine, PythonRow};

const OPEN: &str = "import ctypes\nlibcuda = ctypes.CDLL(\"libcuda.so.1\")";
const RETAIN: &str = "libcuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), ";

/// A line, and the required facts of its row.
pub struct Control {
    /// The line.
    pub line: PythonLine,
    /// Required facts of its row: whether the driver was initialized before, `cuInit`, the mask, contexts.
    shows: PythonFacts,
    /// `true` if `cuInit` is known to succeed if it is called; otherwise it may or may not read the mask.
    can_succeed: bool,
}

impl Control {
    /// Returns the row, with the result of the control.
    pub fn held(&self, row: PythonRow) -> PythonRow {
        let (facts, shows) = (&row.facts, &self.shows);
        let is_shown = row.standing.unmeasured.is_none()
            && facts.initialised_before == shows.initialised_before
            && facts.calls_cuinit == shows.calls_cuinit
            && (facts.reads_mask == shows.reads_mask || !self.can_succeed)
            && facts.context_on == shows.context_on;
        PythonRow {
            as_expected: Some(is_shown),
            ..row
        }
    }
}

/// Returns the controls for processes that see these GPUs, as NVML indices in the order of a mask or of `PCI_BUS_ID`.
pub fn instrument_controls(visible: &[u32]) -> Vec<Control> {
    let mut all = vec![
        Control {
            line: line("a line without CUDA", &[], "sum(range(10))".to_string()),
            shows: facts(false, Some(false), Vec::new()),
            can_succeed: true,
        },
        Control {
            line: line("cuInit", &[OPEN], "libcuda.cuInit(0)".to_string()),
            shows: facts(false, Some(true), Vec::new()),
            can_succeed: !visible.is_empty(),
        },
    ];
    if let Some((ordinal, gpu)) = visible.iter().enumerate().next_back() {
        all.push(Control {
            line: line(
                "a context on the last GPU",
                &[OPEN, "libcuda.cuInit(0)"],
                format!("{RETAIN}{ordinal})"),
            ),
            shows: facts(true, None, vec![*gpu]),
            can_succeed: true,
        });
    }
    all
}

fn line(id: &str, before: &[&str], ask: String) -> PythonLine {
    PythonLine {
        id: format!("{INSTRUMENT}: {id}"),
        framework: INSTRUMENT.to_string(),
        before: before.iter().map(|line| (*line).to_string()).collect(),
        ask,
        env: [("CUDA_DEVICE_ORDER".to_string(), "PCI_BUS_ID".to_string())].into(),
        ..PythonLine::default()
    }
}

fn facts(
    initialised_before: bool,
    calls_cuinit: Option<bool>,
    context_on: Vec<u32>,
) -> PythonFacts {
    PythonFacts {
        initialised_before: Some(initialised_before),
        calls_cuinit,
        reads_mask: calls_cuinit,
        context_on: Some(context_on),
        ..PythonFacts::default()
    }
}
