//! What a call is given, and where it writes.

use cuda_pitfalls_calls::{FieldType, InputStruct, Layout, Output, Param};

use super::condition::WrittenKind;
use super::language::{Language, WIDE};
use super::program::{Argument, ExportStep, Number, safe_identifier};
use super::writer::CaseText;

/// What a step wrote and can be asked about.
pub(super) struct Written {
    pub(super) key: String,
    /// Its value, once the call has succeeded.
    pub(super) value: String,
    pub(super) kind: WrittenKind,
}

impl Written {
    pub(super) fn new(key: &str, value: impl Into<String>, kind: WrittenKind) -> Written {
        Written {
            key: key.to_owned(),
            value: value.into(),
            kind,
        }
    }
}

impl CaseText<'_> {
    /// What is passed, but for a struct and for what the call writes.
    pub(super) fn passed_argument(
        &self,
        param: &Param,
        c_type: &str,
        argument: &Argument,
    ) -> String {
        let language = self.language;
        match argument {
            Argument::Number(value) => language.passed_number(value, param, c_type),
            Argument::Text(pieces) => language.passed_text(pieces),
            Argument::Variable(name) if language == Language::C => self.c_bound(name, c_type),
            Argument::Variable(name) => language.variable(name),
            Argument::Handle(0) if !WIDE.contains(&c_type) => {
                language.pick(["NULL", "None"]).to_string()
            }
            Argument::Handle(value) => {
                let c_type = c_type.replace("const ", "");
                language.form(
                    ["($1)(uintptr_t)$0", "c_void_p($0)"],
                    &[&value.to_string(), &c_type],
                )
            }
            Argument::Kernel(name) => format!("kernel_{}", safe_identifier(name, &[])),
            Argument::List(values) => {
                let word = ["&(uint64_t){$0}", "$0"];
                let all = values.iter().map(|value| match value {
                    Argument::Variable(name) => {
                        language.form(["&$0", "$0"], &[&language.variable(name)])
                    }
                    Argument::Number(value) => language.form(word, &[&language.number(value)]),
                    Argument::Handle(value) => language.form(word, &[&value.to_string()]),
                    _ => language.pick(["NULL", "0"]).to_string(),
                });
                language.form(
                    ["(void *[]){$0}", "list_of($0)"],
                    &[&all.collect::<Vec<_>>().join(", ")],
                )
            }
            Argument::Dim3(x, z) => language.form(
                ["(dim3){$0, 1, $1}", "Dim3($0, 1, $1)"],
                &[&x.to_string(), &z.to_string()],
            ),
            Argument::Location { host, device } => {
                let (kind, device) = if *host {
                    ("2", "0".to_string())
                } else {
                    ("1", language.number(device))
                };
                language.form(
                    ["($0){$1, $2}", "Location($1, $2)"],
                    &[c_type, kind, &device],
                )
            }
            Argument::Struct { .. } | Argument::Out(_) | Argument::Rest => String::new(),
        }
    }

    /// The argument for an output of the call.
    pub(super) fn out(
        &mut self,
        action: &ExportStep<'_>,
        param: &Param,
        c_type: &str,
        output: Output,
        written: &mut Vec<Written>,
    ) -> String {
        let language = self.language;
        // In Python a variable that a call writes is an object that has the value.
        let is_kept = language == Language::C && self.program.is_compared(action.label, param.name);
        let name = if is_kept {
            format!("{}_{}", action.label, param.name)
        } else {
            param.name.to_string()
        };
        let name = language.variable(&name);
        let (own, count, kind) = match (output, action.bind) {
            (Output::I32, _) => ("int", None, WrittenKind::Number),
            (Output::U32, _) => ("unsigned int", None, WrittenKind::Number),
            (Output::F32, _) => ("float", None, WrittenKind::Number),
            (Output::Varying, _) if c_type == "int *" => ("int", None, WrittenKind::Number),
            (Output::U64 | Output::Varying, _) if c_type == "size_t *" => {
                ("size_t", None, WrittenKind::Number)
            }
            (Output::U64 | Output::Varying, _) | (Output::Word(_), None) => {
                ("unsigned long long", None, WrittenKind::Number)
            }
            (Output::Uuid, _) => ("unsigned char", Some(16), WrittenKind::Text),
            (Output::Text(bytes), _) => ("char", Some(bytes), WrittenKind::Text),
            (Output::Struct(layout), _) => {
                let (name, fields) = self.struct_with_fields(action.label, &name, layout);
                written.extend(fields);
                return name;
            }
            (Output::Blob(_, bytes), None) => {
                let room = language.form(["{0}", "(c_ubyte * $0)()"], &[&bytes.to_string()]);
                let name =
                    self.declare_variable("unsigned char", &name, &format!("[{bytes}]"), &room, "");
                return language.form(["(void *)$0", "$0"], &[&name]);
            }
            (_, Some(bound)) => {
                let held = self
                    .sequence
                    .variables
                    .iter()
                    .find(|held| held.name == bound);
                let own = held.map(|held| held.c_type.as_str()).unwrap_or_default();
                let bound = language.variable(bound);
                if !matches!(output, Output::Blob(..)) {
                    let value = language.form(["$0", "$0.value"], &[&bound]);
                    written.push(Written::new(param.name, value, WrittenKind::Handle));
                }
                return language.address(&bound, own, c_type);
            }
            (_, None) => ("void *", None, WrittenKind::Handle),
        };
        let array = count.map(|count| format!("[{count}]")).unwrap_or_default();
        let name = self.declare_variable(own, &name, &array, &language.room(own, count), "");
        let value = match output {
            Output::Uuid => format!("uuid_text({name})"),
            Output::Text(_) => language.form(["$0", "$0.value.decode()"], &[&name]),
            _ => language.form(["$0", "$0.value"], &[&name]),
        };
        written.push(Written::new(param.name, value, kind));
        if count.is_some() {
            name
        } else {
            language.address(&name, own, c_type)
        }
    }

    /// What is passed for a struct of which one number is given.
    pub(super) fn struct_argument(
        &mut self,
        param: &Param,
        template: &InputStruct,
        given: &Number,
    ) -> String {
        let given = self.language.number(given);
        if self.language == Language::Python {
            let preset = template
                .preset
                .iter()
                .map(|word| format!("({}, 4, {:#x})", word.offset, word.value));
            let given = format!("({}, {}, {given})", template.given, template.width);
            return format!(
                "room({}, {})",
                template.size,
                preset.chain([given]).collect::<Vec<_>>().join(", ")
            );
        }
        let array = format!("[{}]", template.size.div_ceil(8));
        let name = self.declare_variable(
            "uint64_t",
            &self.language.variable(param.name),
            &array,
            "{0}",
            "",
        );
        let preset = template
            .preset
            .iter()
            .map(|word| (word.offset, word.value.to_string(), word.member));
        for (offset, value, member) in preset.chain([(template.given, given, template.member)]) {
            let member = format!(" {}", self.language.comment_line(member));
            self.write_statement(&word_put(&name, offset, &value), &member);
        }
        name
    }

    /// A struct that the call writes, and its fields.
    fn struct_with_fields(
        &mut self,
        label: &str,
        name: &str,
        layout: &Layout,
    ) -> (String, Vec<Written>) {
        let language = self.language;
        let name = match language {
            Language::C => self.c_room(label, name, layout),
            Language::Python => {
                self.declare_variable("uint64_t", name, "[]", &python_room(layout), "")
            }
        };
        let fields = layout.fields.iter().map(|field| {
            let (forms, kind) = match field.read {
                FieldType::I32 if field.offset % 8 == 4 => (
                    ["(int)($0[$1] >> 32)", "word_at($0, $2, 4)"],
                    WrittenKind::Part,
                ),
                FieldType::I32 => (["(int)$0[$1]", "word_at($0, $2, 4)"], WrittenKind::Part),
                FieldType::U64 => (["$0[$1]", "word_at($0, $2, 8)"], WrittenKind::Part),
                FieldType::Text(_) => (
                    [
                        "(char *)$0 + $2",
                        "bytes($0)[$2:].split(b\"\\0\")[0].decode()",
                    ],
                    WrittenKind::Text,
                ),
            };
            let (word, offset) = ((field.offset / 8).to_string(), field.offset.to_string());
            Written::new(
                field.name,
                language.form(forms, &[&name, &word, &offset]),
                kind,
            )
        });
        let fields = fields.collect();
        (name, fields)
    }

    /// The name for which Python has a number alone.
    pub(super) fn name_of(&self, argument: &Argument) -> Option<&'static str> {
        match argument {
            _ if self.language == Language::C => None,
            Argument::Number(Number::Named(name, _)) => Some(name),
            Argument::Struct { template, .. } => Some(template.name),
            _ => None,
        }
    }

    /// What is passed for a variable that steps bind.
    fn c_bound(&self, name: &str, c_type: &str) -> String {
        let own = self
            .sequence
            .variables
            .iter()
            .find(|held| held.name == name)
            .map(|held| held.c_type.as_str());
        let (plain, name) = (c_type.replace("const ", ""), Language::C.variable(name));
        let is_same = own == Some(plain.as_str()) || own == Some(c_type);
        if is_same {
            name
        } else {
            format!("({plain})(uintptr_t){name}")
        }
    }

    /// Declares a struct that a call writes, and what is kept of it.
    fn c_room(&mut self, label: &str, name: &str, layout: &Layout) -> String {
        let first = layout.preset.iter().find(|word| word.offset == 0);
        let value = first.map_or_else(
            || "{0}".to_string(),
            |word| format!("{{{:#x}}}", word.value),
        );
        let name = self.declare_variable(
            "uint64_t",
            name,
            &format!("[{}]", layout.size.div_ceil(8)),
            &value,
            "",
        );
        for word in layout.preset.iter().filter(|word| word.offset != 0) {
            self.write_statement(
                &word_put(&name, word.offset, &format!("{:#x}", word.value)),
                "",
            );
        }
        for field in layout
            .fields
            .iter()
            .filter(|field| self.program.is_compared(label, field.name))
        {
            // It is set in a block, and read behind it.
            self.declare_variable(
                "long long",
                &Language::C.variable(&format!("{label}_{}", field.name)),
                "",
                "0",
                "",
            );
        }
        name
    }
}

fn word_put(name: &str, offset: usize, value: &str) -> String {
    let shift = if offset % 8 == 4 { " << 32" } else { "" };
    format!("{name}[{}] |= (uint64_t){value}{shift}", offset / 8)
}

fn python_room(layout: &Layout) -> String {
    let words = layout
        .preset
        .iter()
        .map(|word| format!(", ({}, 4, {:#x})", word.offset, word.value));
    format!(
        "room({}{})",
        layout.size.div_ceil(8) * 8,
        words.collect::<String>()
    )
}
