//! C structs that are passed by address: outputs that the function fills in, and inputs that the caller fills in.

use std::sync::LazyLock;

use crate::table::{self, TableError, Wrong, each_line, parse_small};

/// A C struct that the function writes.
#[derive(Debug)]
pub struct Layout {
    /// The C type; if one buffer serves several types, the largest.
    pub name: &'static str,
    /// Bytes to allocate; at least `sizeof` of the largest version known.
    pub size: usize,
    /// 32-bit words to write before the call, such as a version field.
    pub preset: Vec<PresetWord>,
    /// The fields to report.
    pub fields: Vec<StructField>,
}

/// A 32-bit word to write before a call.
#[derive(Clone, Copy, Debug)]
pub struct PresetWord {
    /// The member in C; `*` if the C type is not a struct.
    pub member: &'static str,
    /// The offset in the struct, in bytes.
    pub offset: usize,
    /// The value.
    pub value: u32,
}

/// A struct field that the function filled in.
#[derive(Debug)]
pub struct StructField {
    /// The key in a report.
    pub name: &'static str,
    /// The member in C; `*` if the C type is not a struct.
    pub member: &'static str,
    /// The offset in the struct, in bytes.
    pub offset: usize,
    /// The type of the field.
    pub read: FieldType,
    /// `true` if it is the same in every attempt, so that it is part of outcomes.
    pub stable: bool,
}

/// The type of a struct's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A 32-bit signed integer.
    I32,
    /// A 64-bit unsigned integer.
    U64,
    /// A C string of at most this many bytes.
    Text(usize),
}

/// A C struct that the caller fills in: constants, and one word that the author gives.
#[derive(Debug)]
pub struct InputStruct {
    /// The C type.
    pub name: &'static str,
    /// The `sizeof` of the struct.
    pub size: usize,
    /// 32-bit words to write.
    pub preset: Vec<PresetWord>,
    /// The member in C that the author gives; `*` if the C type is not a struct.
    pub member: &'static str,
    /// The offset of the author's word, in bytes.
    pub given: usize,
    /// The size of the author's word in bytes: 4 or 8.
    pub width: usize,
}

/// All structs, by their use.
struct Structs {
    layouts: Vec<Layout>,
    templates: Vec<InputStruct>,
}

static STRUCTS: LazyLock<Structs> = LazyLock::new(|| {
    table::read(
        "structs.txt",
        parse_structs(include_str!("tables/structs.txt")),
    )
});

impl Layout {
    /// Returns a struct that a function writes, by its name in the table.
    pub fn find(name: &str) -> Option<&'static Layout> {
        STRUCTS.layouts.iter().find(|layout| layout.name == name)
    }
}

impl InputStruct {
    /// Returns a struct that a caller fills in, by its name in the table.
    pub fn find(name: &str) -> Option<&'static InputStruct> {
        STRUCTS
            .templates
            .iter()
            .find(|template| template.name == name)
    }
}

/// Parses structs: a line with the use, the name and the size, then an indented line per member.
fn parse_structs(text: &'static str) -> Result<Structs, Wrong> {
    let mut all = Structs {
        layouts: Vec::new(),
        templates: Vec::new(),
    };
    let mut is_layout = false;
    each_line(text, |indented, said| {
        if indented {
            let member = Member::read(said)?;
            let put = if is_layout {
                all.layouts
                    .last_mut()
                    .map(|layout| member.into_layout(layout))
            } else {
                all.templates
                    .last_mut()
                    .map(|template| member.into_template(template))
            };
            return put.ok_or(TableError::Line("a member outside any struct"))?;
        }
        let (whose, rest) = said.split_once(' ').unwrap_or((said, ""));
        let (name, size) = rest
            .rsplit_once(' ')
            .ok_or(TableError::Line("expected `out name size`"))?;
        let size = parse_small(size)?;
        is_layout = whose == "out";
        match whose {
            "out" => all.layouts.push(Layout {
                name,
                size,
                preset: Vec::new(),
                fields: Vec::new(),
            }),
            "in" => all.templates.push(InputStruct {
                name,
                size,
                preset: Vec::new(),
                member: "",
                given: 0,
                width: 0,
            }),
            _ => return Err(TableError::Found("`in` or `out`", whose)),
        }
        Ok(())
    })?;
    match all
        .templates
        .iter()
        .find(|template| template.given + template.width > template.size || template.width == 0)
    {
        Some(template) => Err((0, TableError::Given(template.name))),
        None => Ok(all),
    }
}

/// A line of a struct: `member at offset`, and its type or value.
struct Member {
    name: &'static str,
    offset: usize,
    is: &'static str,
}

impl Member {
    fn read(said: &'static str) -> Result<Member, TableError> {
        let expected = TableError::Line("expected `member at offset: what it is`");
        let (place, is) = said.split_once(": ").ok_or(expected)?;
        let (name, offset) = place.split_once(" at ").ok_or(expected)?;
        Ok(Member {
            name,
            offset: parse_small(offset)?,
            is,
        })
    }

    fn preset_word(&self, size: usize) -> Result<Option<PresetWord>, TableError> {
        let Some(value) = self.is.strip_prefix("= ") else {
            return Ok(None);
        };
        self.check_inside(4, size)?;
        Ok(Some(PresetWord {
            member: self.name,
            offset: self.offset,
            value: parse_small(value)?,
        }))
    }

    fn check_inside(&self, bytes: usize, size: usize) -> Result<(), TableError> {
        if self.offset + bytes <= size {
            Ok(())
        } else {
            Err(TableError::Word(self.name, "is not inside its struct"))
        }
    }

    fn into_layout(self, layout: &mut Layout) -> Result<(), TableError> {
        if let Some(word) = self.preset_word(layout.size)? {
            layout.preset.push(word);
            return Ok(());
        }
        let (is, name) = self.is.split_once(" as ").unwrap_or((self.is, self.name));
        let (is, stable) = is
            .strip_suffix(" varying")
            .map_or((is, true), |is| (is, false));
        let (read, bytes) = match is.split_once(' ') {
            Some(("text", bytes)) => (FieldType::Text(parse_small(bytes)?), parse_small(bytes)?),
            None if is == "i32" => (FieldType::I32, 4),
            None if is == "u64" => (FieldType::U64, 8),
            _ => return Err(TableError::Word(is, "is not a way to read a member")),
        };
        self.check_inside(bytes, layout.size)?;
        layout.fields.push(StructField {
            name,
            member: self.name,
            offset: self.offset,
            read,
            stable,
        });
        Ok(())
    }

    fn into_template(self, template: &mut InputStruct) -> Result<(), TableError> {
        if let Some(word) = self.preset_word(template.size)? {
            template.preset.push(word);
            return Ok(());
        }
        template.width = match self.is {
            "given u32" => 4,
            "given u64" => 8,
            is => return Err(TableError::Found("`given u32` or `given u64`", is)),
        };
        (template.member, template.given) = (self.name, self.offset);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lie_inside_their_struct() {
        assert!(
            parse_structs("out a 4\n    x at 0: u64")
                .err()
                .unwrap()
                .1
                .to_string()
                .contains("not inside")
        );
        assert!(
            parse_structs("in a 4\n    x at 4: given u32")
                .err()
                .unwrap()
                .1
                .to_string()
                .contains("not in it")
        );
    }
}
