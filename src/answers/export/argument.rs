//! The arguments of a C call, and the places that it writes to.

use cuda_pitfalls_calls::{FieldType, InputStruct, Layout, Output, Param, ParamKind};

use super::condition::WrittenKind;
use super::language::{Language, WIDE};
use super::program::{Argument, ExportStep, Number, safe_identifier};
use super::writer::CaseText;

/// An output of a step that can be compared.
pub(super) struct Written {
    pub(super) key: String,
    /// The value of the output, once the call has succeeded.
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
    /// Returns the expression for an argument that needs no declaration.
    pub(super) fn passed_argument(
        &self,
        param: &Param,
        c_type: &str,
        argument: &Argument,
    ) -> String {
        match argument {
            Argument::Number(value) => passed_number(value, param, c_type),
            Argument::Text(pieces) => Language::C.text(pieces),
            Argument::Variable(name) => self.bound_variable(name, c_type),
            Argument::Handle(0) if !WIDE.contains(&c_type) => "NULL".to_string(),
            Argument::Handle(value) => {
                format!("({})(uintptr_t){value}", c_type.replace("const ", ""))
            }
            Argument::Kernel(name) => format!("kernel_{}", safe_identifier(name, &[])),
            Argument::List(values) => {
                let values: Vec<String> = values.iter().map(list_element).collect();
                format!("(void *[]){{{}}}", values.join(", "))
            }
            Argument::Dim3(x, z) => format!("(dim3){{{x}, 1, {z}}}"),
            Argument::Location { host: true, .. } => format!("({c_type}){{2, 0}}"),
            Argument::Location { device, .. } => {
                format!("({c_type}){{1, {}}}", number_text(device))
            }
            Argument::Struct { .. } | Argument::Out(_) | Argument::Rest => String::new(),
        }
    }

    /// Declares the output of a call, and returns the expression for it.
    pub(super) fn output_argument(
        &mut self,
        action: &ExportStep<'_>,
        param: &Param,
        c_type: &str,
        output: Output,
        written: &mut Vec<Written>,
    ) -> String {
        let name = if self.program.is_compared(action.label, param.name) {
            Language::C.variable(&format!("{}_{}", action.label, param.name))
        } else {
            Language::C.variable(param.name)
        };
        let (own, kind) = match (output, action.bind) {
            (Output::I32, _) => ("int", WrittenKind::Number),
            (Output::U32, _) => ("unsigned int", WrittenKind::Number),
            (Output::F32, _) => ("float", WrittenKind::Number),
            (Output::Varying, _) if c_type == "int *" => ("int", WrittenKind::Number),
            (Output::U64 | Output::Varying, _) if c_type == "size_t *" => {
                ("size_t", WrittenKind::Number)
            }
            (Output::U64 | Output::Varying, _) | (Output::Word(_), None) => {
                ("unsigned long long", WrittenKind::Number)
            }
            (Output::Uuid, _) => {
                let name = self.declare_variable("unsigned char", &name, "[16]", "{0}", "");
                let value = format!("uuid_text({name})");
                written.push(Written::new(param.name, value, WrittenKind::Text));
                return name;
            }
            (Output::Text(bytes), _) => {
                let array = format!("[{bytes}]");
                let name = self.declare_variable("char", &name, &array, "\"\"", "");
                written.push(Written::new(param.name, &*name, WrittenKind::Text));
                return name;
            }
            (Output::Struct(layout), _) => {
                return self.output_struct(action.label, &name, layout, written);
            }
            (Output::Blob(_, bytes), None) => {
                let array = format!("[{bytes}]");
                let name = self.declare_variable("unsigned char", &name, &array, "{0}", "");
                return format!("(void *){name}");
            }
            (_, Some(bound)) => return self.output_handle(param, c_type, output, bound, written),
            (_, None) => ("void *", WrittenKind::Handle),
        };
        let empty = if own.ends_with('*') { "NULL" } else { "0" };
        let name = self.declare_variable(own, &name, "", empty, "");
        let address = address_text(&name, own, c_type);
        written.push(Written::new(param.name, name, kind));
        address
    }

    /// Returns the address of the variable that the step binds.
    fn output_handle(
        &self,
        param: &Param,
        c_type: &str,
        output: Output,
        bound: &str,
        written: &mut Vec<Written>,
    ) -> String {
        let own = self.bound_type(bound).unwrap_or_default();
        let name = Language::C.variable(bound);
        if !matches!(output, Output::Blob(..)) {
            written.push(Written::new(param.name, &*name, WrittenKind::Handle));
        }
        address_text(&name, own, c_type)
    }

    /// Declares a struct with one given number, and returns the argument to pass for it.
    pub(super) fn struct_argument(
        &mut self,
        param: &Param,
        template: &InputStruct,
        given: &Number,
    ) -> String {
        let array = format!("[{}]", template.size.div_ceil(8));
        let name = Language::C.variable(param.name);
        let name = self.declare_variable("uint64_t", &name, &array, "{0}", "");
        for word in &template.preset {
            self.put_word(&name, word.offset, &word.value.to_string(), word.member);
        }
        self.put_word(&name, template.given, &number_text(given), template.member);
        name
    }

    /// Sets a word of a struct, with the member's name as a comment.
    fn put_word(&mut self, name: &str, offset: usize, value: &str, member: &str) {
        let comment = format!(" {}", Language::C.comment_line(member));
        self.write_statement(&word_put(name, offset, value), &comment);
    }

    /// Declares a struct that the call writes and what is kept of it, and returns its name.
    fn output_struct(
        &mut self,
        label: &str,
        name: &str,
        layout: &Layout,
        written: &mut Vec<Written>,
    ) -> String {
        let first = layout.preset.iter().find(|word| word.offset == 0);
        let value = match first {
            Some(word) => format!("{{{:#x}}}", word.value),
            None => "{0}".to_string(),
        };
        let array = format!("[{}]", layout.size.div_ceil(8));
        let name = self.declare_variable("uint64_t", name, &array, &value, "");
        for word in &layout.preset {
            if word.offset != 0 {
                let value = format!("{:#x}", word.value);
                self.write_statement(&word_put(&name, word.offset, &value), "");
            }
        }
        for field in &layout.fields {
            if self.program.is_compared(label, field.name) {
                // The variable is set inside a block, and read after it.
                let kept = Language::C.variable(&format!("{label}_{}", field.name));
                self.declare_variable("long long", &kept, "", "0", "");
            }
            let (offset, word) = (field.offset, field.offset / 8);
            let (value, kind) = match field.read {
                FieldType::I32 if offset % 8 == 4 => {
                    (format!("(int)({name}[{word}] >> 32)"), WrittenKind::Part)
                }
                FieldType::I32 => (format!("(int){name}[{word}]"), WrittenKind::Part),
                FieldType::U64 => (format!("{name}[{word}]"), WrittenKind::Part),
                FieldType::Text(_) => (format!("(char *){name} + {offset}"), WrittenKind::Text),
            };
            written.push(Written::new(field.name, value, kind));
        }
        name
    }

    /// Returns the C type of a variable that steps bind.
    fn bound_type(&self, name: &str) -> Option<&str> {
        let mut variables = self.sequence.variables.iter();
        let variable = variables.find(|variable| variable.name == name)?;
        Some(&variable.c_type)
    }

    /// Returns the expression for a variable that steps bind.
    fn bound_variable(&self, name: &str, c_type: &str) -> String {
        let own = self.bound_type(name);
        let (plain, name) = (c_type.replace("const ", ""), Language::C.variable(name));
        if own == Some(plain.as_str()) || own == Some(c_type) {
            name
        } else {
            format!("({plain})(uintptr_t){name}")
        }
    }
}

fn list_element(value: &Argument) -> String {
    match value {
        Argument::Variable(name) => format!("&{}", Language::C.variable(name)),
        Argument::Number(value) => format!("&(uint64_t){{{}}}", number_text(value)),
        Argument::Handle(value) => format!("&(uint64_t){{{value}}}"),
        _ => "NULL".to_string(),
    }
}

fn number_text(number: &Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Named(name, _) => (*name).to_string(),
        Number::Gpus => "gpu_count()".to_string(),
    }
}

fn passed_number(value: &Number, param: &Param, c_type: &str) -> String {
    match (param.kind, value) {
        (_, Number::Int(0)) if c_type.contains('*') => "NULL".to_string(),
        _ if c_type.contains('*') => format!("(void *)(uintptr_t){}", number_text(value)),
        (ParamKind::Bytes, Number::Int(bytes)) => Language::C.size(*bytes),
        _ => number_text(value),
    }
}

/// Returns the address of a variable of the type `own`, for a parameter of this C type.
fn address_text(name: &str, own: &str, c_type: &str) -> String {
    if c_type.replace(' ', "") == format!("{own}*").replace(' ', "") {
        format!("&{name}")
    } else {
        format!("(void *)&{name}")
    }
}

fn word_put(name: &str, offset: usize, value: &str) -> String {
    let shift = if offset % 8 == 4 { " << 32" } else { "" };
    format!("{name}[{}] |= (uint64_t){value}{shift}", offset / 8)
}
