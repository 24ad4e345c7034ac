//! The committed run of all scenarios under a trace on 2 GPUs (reports/traced-run): the trace's own counts show that
//! each worker made the listed calls and no others, on the real driver.

use crate::common;

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};

use common::counts::{self, Compared};
use common::{Scratch, root};
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
    unpacked("report.json.gz")
        .read_to_string(&mut text)
        .expect("it can be unpacked");
    let report: Report = serde_json::from_str(&text).expect("a report");
    let mut trace =
        Trace::read(unpacked("trace.ndjson.gz"), "trace.ndjson".as_ref()).expect("a trace");
    assert_eq!(trace.start.provenance, Provenance::Measured);
    let Compared {
        attempts,
        counts,
        wrong,
    } = counts::compare(&report, &trace);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        attempts > 250 && counts > 1500,
        "{attempts} attempts, {counts} counts"
    );
    // A call too many is found, wherever it was made.
    for counts in &mut trace.counts {
        counts
            .calls
            .entry("cuMemGetInfo_v2".to_owned())
            .or_default()
            .calls += 1;
    }
    assert_eq!(counts::compare(&report, &trace).wrong.len(), attempts);
}

#[test]
fn a_compressed_trace_is_rendered_as_it_is() {
    let scratch = Scratch::new();
    let mut plain = String::new();
    unpacked("trace.ndjson.gz")
        .read_to_string(&mut plain)
        .expect("it can be unpacked");
    // The end of a long trace is not needed to read its beginning.
    let begin: String = plain.split_inclusive('\n').take(2000).collect();
    let plain = scratch.file("trace.ndjson", &begin);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(begin.as_bytes()).expect("it is compressed");
    let zstd = ruzstd::encoding::compress_to_vec(
        begin.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    for (name, packed) in [
        ("trace.ndjson.gz", gzip.finish().expect("it is compressed")),
        ("trace.ndjson.zst", zstd),
    ] {
        let packed = scratch.file(name, packed);
        for arguments in [&["render"][..], &["render", "--redact"]] {
            let [of_plain, of_packed] =
                [&plain, &packed].map(|path| scratch.run(&[arguments, &[path]].concat()).good());
            assert!(
                of_plain.stdout == of_packed.stdout && of_plain.stdout.len() > 1000,
                "{name}: {of_packed:#?}"
            );
        }
    }
}
