//! The page where a process records the owners of its memory (src/fake/shim/memory.rs).
//!
//! The process may write anything there, at any moment. Sums saturate, and a size that no GPU has counts as zero.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use cuda_pitfalls_fake::counts::DEVICES;

/// The number of callers that a process can distinguish, plus one row per device for all other callers.
pub(in crate::tracer) const ROWS: usize = 4096;
/// The number of rows for single callers.
pub(in crate::tracer) const TOLD_ROWS: usize = ROWS - DEVICES;
/// Words of a device: allocation granularity, unused pool memory, graph memory, bytes of its rows, how often they
/// changed, and running calls.
const DEVICE_WORDS: usize = 6;
const UNDER_WAY: usize = 5;
/// Words of a row: bytes and allocations.
const ROW_WORDS: usize = 2;
const WORD: usize = size_of::<u64>();
const DEVICES_BYTES: usize = DEVICES * DEVICE_WORDS * WORD;
/// The length of the page.
pub(in crate::tracer) const PAGE_BYTES: usize = DEVICES_BYTES + ROWS * ROW_WORDS * WORD;
/// A limit above the memory of any GPU: a larger difference was read while one of its two numbers changed, or the
/// process wrote a wrong number.
const IMPOSSIBLE_BYTES: u64 = 1 << 48;

/// The page's records of a device, without its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceBlock {
    pub(super) rounding_bytes: u64,
    pub(super) pool_rest_bytes: u64,
    pub(super) graph_bytes: u64,
    rows_bytes: u64,
}

impl DeviceBlock {
    /// Returns the total of the device's memory according to the page.
    pub(super) fn total_bytes(&self) -> u64 {
        [
            self.rounding_bytes,
            self.pool_rest_bytes,
            self.graph_bytes,
            self.rows_bytes,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// The memory of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRow {
    pub(super) bytes: u64,
    pub(super) count: u64,
}

/// The page of a process, as it was last read.
pub(super) struct SharedPage {
    file: File,
    devices_text: Vec<u8>,
    /// The devices with any memory, by their ordinals.
    pub(super) devices: BTreeMap<usize, DeviceBlock>,
    /// The rows with any memory.
    pub(super) rows: BTreeMap<usize, PageRow>,
}

impl SharedPage {
    pub(super) fn new(file: File) -> SharedPage {
        SharedPage {
            file,
            devices_text: Vec::new(),
            devices: BTreeMap::new(),
            rows: BTreeMap::new(),
        }
    }

    /// Reads the page. If that fails, the last content remains.
    pub(super) fn read(&mut self) {
        let mut text = vec![0; PAGE_BYTES];
        if self.file.read_exact_at(&mut text, 0).is_ok() {
            self.take(text);
        }
    }

    /// Reads the page like [`SharedPage::read`], if anything was allocated or freed since. This reads little of an
    /// unchanged page.
    pub(super) fn read_if_changed(&mut self) {
        if self
            .device_mark()
            .is_some_and(|text| text != self.devices_text)
        {
            self.read();
        }
    }

    /// Returns the current bytes of the device blocks, which change with every allocation.
    pub(super) fn device_mark(&self) -> Option<Vec<u8>> {
        let mut text = vec![0; DEVICES_BYTES];
        self.file.read_exact_at(&mut text, 0).ok().map(|()| text)
    }

    fn take(&mut self, mut text: Vec<u8>) {
        let words: Vec<u64> = text
            .as_chunks::<WORD>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word))
            .collect();
        let (devices, rows) = words.split_at(DEVICES * DEVICE_WORDS);
        let devices = devices.as_chunks::<DEVICE_WORDS>().0.iter().map(|words| {
            let [rounding_bytes, pool_rest_bytes, graph_bytes, rows_bytes, ..] =
                words.map(plausible_bytes);
            DeviceBlock {
                rounding_bytes,
                pool_rest_bytes,
                graph_bytes,
                rows_bytes,
            }
        });
        let rows = rows.as_chunks::<ROW_WORDS>().0.iter().map(|words| {
            let [bytes, count] = words.map(plausible_bytes);
            PageRow { bytes, count }
        });
        self.devices = devices
            .enumerate()
            .filter(|(_, device)| *device != DeviceBlock::default())
            .collect();
        self.rows = rows.enumerate().filter(|(_, row)| row.bytes > 0).collect();
        text.truncate(DEVICES_BYTES);
        self.devices_text = text;
    }
}

/// Returns the number of the process's calls that were allocating or freeing memory when it had this mark.
pub(super) fn calls_under_way(mark: &[u8]) -> u64 {
    mark.as_chunks::<WORD>()
        .0
        .get(UNDER_WAY)
        .map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Returns the device of a row that collects all further callers; `None` for the row of a single caller.
pub(super) fn device_of_rest(row: usize) -> Option<usize> {
    row.checked_sub(TOLD_ROWS)
}

fn plausible_bytes(word: u64) -> u64 {
    if word < IMPOSSIBLE_BYTES { word } else { 0 }
}

/// A writable page for tests.
#[cfg(test)]
pub(super) struct TestPage(pub(super) File);

#[cfg(test)]
impl TestPage {
    pub(super) fn new() -> TestPage {
        let file =
            File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::empty()).unwrap());
        file.set_len(PAGE_BYTES as u64).unwrap();
        TestPage(file)
    }

    pub(super) fn page(&self) -> SharedPage {
        SharedPage::new(self.0.try_clone().unwrap())
    }

    /// Writes words of a device, beginning at this index.
    pub(super) fn device(&self, device: usize, index: usize, words: &[u64]) {
        self.write(device * DEVICE_WORDS + index, words);
    }

    /// Writes bytes and allocations of a row.
    pub(super) fn row(&self, row: usize, bytes: u64, count: u64) {
        self.write(DEVICES * DEVICE_WORDS + row * ROW_WORDS, &[bytes, count]);
    }

    fn write(&self, index: usize, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.0.write_all_at(&bytes, (index * WORD) as u64).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_by_devices_and_rows() {
        let written = TestPage::new();
        written.device(1, 0, &[10, 20, 30, 40]);
        written.row(0, 1 << 20, 3);
        written.row(ROWS - 1, 40, 1);
        let mut page = written.page();
        page.read();
        assert_eq!(page.devices.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(page.devices[&1].total_bytes(), 100);
        assert_eq!(
            page.rows[&0],
            PageRow {
                bytes: 1 << 20,
                count: 3
            }
        );
        assert_eq!(
            page.rows
                .keys()
                .filter_map(|row| device_of_rest(*row))
                .collect::<Vec<_>>(),
            [DEVICES - 1]
        );
    }

    #[test]
    fn a_page_is_read_again_only_where_a_device_has_changed() {
        let written = TestPage::new();
        let mut page = written.page();
        page.read();
        written.row(0, 7, 1);
        page.read_if_changed();
        assert!(
            page.rows.is_empty(),
            "the row is not written whole before the device says so"
        );
        written.device(0, 4, &[1]);
        page.read_if_changed();
        assert_eq!(page.rows[&0].bytes, 7);
    }

    #[test]
    fn a_page_that_lies_overflows_nothing_and_one_that_is_gone_stays_as_it_was() {
        let written = TestPage::new();
        written.device(
            0,
            0,
            &[u64::MAX, IMPOSSIBLE_BYTES - 1, IMPOSSIBLE_BYTES - 1, 1],
        );
        written.row(3, u64::MAX, u64::MAX);
        written.row(4, 5, 1);
        let mut page = written.page();
        page.read();
        assert_eq!(page.devices[&0].total_bytes(), 2 * IMPOSSIBLE_BYTES - 1);
        assert_eq!(page.rows.keys().collect::<Vec<_>>(), [&4]);
        written.0.set_len(0).unwrap();
        page.read();
        page.read_if_changed();
        assert_eq!(page.rows[&4].bytes, 5);
    }
}
