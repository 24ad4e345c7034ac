//! The committed run of all scenarios under a trace on 2 GPUs (reports/traced-run): the trace's own counts show that
//! each worker made the listed calls and no others, on the real driver.

use crate::common;

use std::fs::File;
use std::io::{BufReader, Read as _};

use common::counts::{self, Compared};
use common::root;
use cuda_pitfalls::report::Report;
use cuda_pitfalls::trace::Trace;
use cuda_pitfalls::verdict::Provenance;
use flate2::read::GzDecoder;

fn unpacked(name: &str) -> BufReader<GzDecoder<File>> {
    let path = root().join("reports/traced-run").join(name);
    BufReader::new(GzDecoder::new(File::open(path).expect("a committed file")))
}

#[test]
fn workers_made_the_listed_calls_and_no_others_on_the_real_driver() {
    let mut text = String::new();
    unpacked("report.json.gz").read_to_string(&mut text).expect("it can be unpacked");
    let report: Report = serde_json::from_str(&text).expect("a report");
    let mut trace = Trace::read(unpacked("trace.ndjson.gz"), "trace.ndjson".as_ref()).expect("a trace");
    assert_eq!(trace.start.provenance, Provenance::Measured);
    let Compared { attempts, counts, wrong } = counts::compare(&report, &trace);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(attempts > 250 && counts > 1500, "{attempts} attempts, {counts} counts");
    // A call too many is found, wherever it was made.
    for counts in &mut trace.counts {
        counts.calls.entry("cuMemGetInfo_v2".to_owned()).or_default().calls += 1;
    }
    assert_eq!(counts::compare(&report, &trace).wrong.len(), attempts);
}
