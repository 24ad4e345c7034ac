//! The files in `/proc/self/maps`.

/// Fields before the path: addresses, permissions, offset, device, inode.
const FIELDS: usize = 5;

/// The paths in the text of `/proc/self/maps`, as bytes: a path may have blanks, and need not be
/// UTF-8.
pub(super) fn paths(maps: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    maps.split(|byte| *byte == b'\n').filter_map(path)
}

/// What is left of a line behind its fixed fields, if that is a file.
fn path(line: &[u8]) -> Option<Vec<u8>> {
    let mut rest = line;
    for _ in 0..FIELDS {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        rest = rest.get(end..)?.trim_ascii_start();
    }
    rest.starts_with(b"/").then(|| rest.to_vec())
}

/// The kernel writes a line break in a path as `\012`, and a backslash as it is: a name
/// may also have these four bytes in it.
pub(super) fn unescaped(path: &[u8]) -> Vec<u8> {
    const BREAK: &[u8] = b"\\012";
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, after)) = rest.split_first() {
        match rest.strip_prefix(BREAK) {
            Some(after) => {
                out.push(b'\n');
                rest = after;
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_all_that_follows_the_fixed_fields() {
        let maps = b"7f00-7f01 r--p 00000000 fe:00 12   /tmp/sp ace/a  b.so\n\
            7f02-7f03 r-xp 00000000 fe:00 13                         /tmp/new\\012line\xff/libcuda.so\n\
            7f04-7f05 rw-p 00000000 00:00 0 \n\
            7f06-7f07 rw-p 00000000 00:00 0                          [heap]\n";
        let found: Vec<Vec<u8>> = paths(maps).map(|path| unescaped(&path)).collect();
        assert_eq!(found, [b"/tmp/sp ace/a  b.so".to_vec(), b"/tmp/new\nline\xff/libcuda.so".to_vec()]);
    }
}
