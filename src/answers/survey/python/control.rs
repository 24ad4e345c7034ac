//! The controls of the instrument: lines whose behaviour is known, because they call CUDA by ctypes. If a control shows
//! anything else, no row can be trusted.

use super::{INSTRUMENT, PythonFacts, PythonLine, PythonRow};

const OPEN: &str = "import ctypes\nlibcuda = ctypes.CDLL(\"libcuda.so.1\")";
const RETAIN: &str = "libcuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), ";

/// A line, and what its row must show.
pub struct Control {
    /// The line.
    pub line: PythonLine,
    /// What its row must show: whether the driver was initialised before, `cuInit`, the mask, contexts.
    shows: PythonFacts,
    /// Whether `cuInit` is known to succeed, if it is called; otherwise it may read the mask or not.
    can_succeed: bool,
}

impl Control {
    /// The row, with the result of the control.
    pub fn held(&self, row: PythonRow) -> PythonRow {
        let (facts, shows) = (&row.facts, &self.shows);
        let is_shown = row.standing.unmeasured.is_none()
            && facts.initialised_before == shows.initialised_before
            && facts.calls_cuinit == shows.calls_cuinit
            && (facts.reads_mask == shows.reads_mask || !self.can_succeed)
            && facts.context_on == shows.context_on;
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
    let facts = |before: bool, init: Option<bool>, context_on: Vec<u32>| PythonFacts {
        initialised_before: Some(before),
        calls_cuinit: init,
        reads_mask: init,
        context_on: Some(context_on),
        ..PythonFacts::default()
    };
    let control = |line, shows, can_succeed| Control { line, shows, can_succeed };
    let nothing = line("a line without CUDA", &[], "sum(range(10))".to_string());
    let init = line("cuInit", &[OPEN], "libcuda.cuInit(0)".to_string());
    let mut all = vec![
        control(nothing, facts(false, Some(false), Vec::new()), true),
        control(init, facts(false, Some(true), Vec::new()), !visible.is_empty()),
    ];
    if let Some((ordinal, gpu)) = visible.iter().enumerate().next_back() {
        let retain = line("a context on the last GPU", &[OPEN, "libcuda.cuInit(0)"], format!("{RETAIN}{ordinal})"));
        all.push(control(retain, facts(true, None, vec![*gpu]), true));
    }
    all
}
