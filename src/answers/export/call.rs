//! The steps of a case in C: the call, and the checks of its result.

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, Returns};

use super::argument::Written;
use super::condition::{WrittenKind, status_condition, value_condition};
use super::effect::{EffectQuestion, Questions};
use super::error::Done;
use super::language::Language;
use super::program::{Argument, ExportStep, c_type};
use super::writer::CaseText;

impl CaseText<'_> {
    pub(super) fn c_call(
        &mut self,
        action: &ExportStep<'_>,
        call: &Call,
        arguments: &[Argument],
        questions: Questions<'_>,
    ) -> Done {
        let label = action.label;
        let (invocation, mut written) = self.declare_call(action, call, arguments);
        let remark = self.remark_comment(action);
        if call.returns == Returns::Text {
            let text = self.declare_variable("const char *", "text", "", &invocation, &remark);
            let text = Written::new(calls::RETURNED_TEXT, text, WrittenKind::Text);
            return self.write_outputs(&[text], label, questions);
        }
        let status = status_asked(questions);
        let is_libc = call.library == CallLibrary::Libc;
        if is_libc && status.is_none() {
            self.write_statement(&invocation, &remark);
            return Ok(());
        }
        let mut result = if is_libc {
            format!("CALL({invocation} == 0 ? 0 : errno)")
        } else {
            format!("CALL({invocation})")
        };
        let mut behind = remark.as_str();
        if status.is_some() {
            result = self.declare_variable("int", "result", "", &result, &remark);
            behind = "";
        }
        written.retain(|written| self.program.is_wanted(label, &written.key));
        if !written.is_empty() {
            self.line(&format!("if ({result} == 0){behind}"));
            self.write_output_block(&written, label, questions)?;
        } else if status.is_none() {
            self.write_statement(&result, behind);
        }
        if let Some((question, names)) = status {
            let condition = status_condition(call.library, &result, names)?;
            self.expect(question, &condition);
        }
        Ok(())
    }

    /// Declares the variables that a call writes to, and returns the call with them.
    fn declare_call(
        &mut self,
        action: &ExportStep<'_>,
        call: &Call,
        arguments: &[Argument],
    ) -> (String, Vec<Written>) {
        let (mut passed, mut written) = (Vec::new(), Vec::new());
        for (param, argument) in call.params.iter().zip(arguments) {
            if param.c_type.is_empty() {
                continue;
            }
            let c_type = c_type(param);
            passed.push(match argument {
                Argument::Rest => continue,
                Argument::Struct { template, given } => {
                    self.struct_argument(param, template, given)
                }
                Argument::Out(output) => {
                    self.output_argument(action, param, &c_type, *output, &mut written)
                }
                argument => self.passed_argument(param, &c_type, argument),
            });
        }
        (format!("{}({})", call.name, passed.join(", ")), written)
    }

    /// Writes the statements about the outputs below a condition, in braces if there are several.
    fn write_output_block(
        &mut self,
        written: &[Written],
        label: &str,
        questions: Questions<'_>,
    ) -> Done {
        let begin = self.text.len();
        self.pad += 1;
        self.write_outputs(written, label, questions)?;
        self.pad -= 1;
        let block = self.text.split_off(begin);
        let is_long = block.matches(";\n").count() > 1;
        if is_long {
            self.text.truncate(self.text.trim_end().len());
            self.text.push_str(" {\n");
        }
        self.text.push_str(&block);
        if is_long {
            self.line("}");
        }
        Ok(())
    }

    /// Prints the outputs, and writes the checks about them.
    fn write_outputs(
        &mut self,
        written: &[Written],
        label: &str,
        questions: Questions<'_>,
    ) -> Done {
        for output in written {
            let value = self.show_output(label, output);
            self.ask_value(&output.key, &value, output.kind, questions)?;
        }
        Ok(())
    }

    /// Returns the expression that prints an output and has its value. If no check uses the value, it is a statement.
    fn show_output(&mut self, label: &str, Written { key, value, kind }: &Written) -> String {
        let is_compared = self.program.is_compared(label, key);
        let mut value = value.clone();
        if is_compared && *kind == WrittenKind::Part {
            let name = Language::C.variable(&format!("{label}_{key}"));
            value = self.declare_variable("long long", &name, "", &value, "");
        }
        let shown = match kind {
            WrittenKind::Text => format!("SHOW_TEXT({value})"),
            WrittenKind::Number | WrittenKind::Part => format!("SHOW({value})"),
            WrittenKind::Handle => value,
        };
        let is_asked = self.program.is_asked_at(label, key);
        if !is_asked && (is_compared || *kind == WrittenKind::Text) {
            self.write_statement(&shown, "");
        }
        shown
    }

    /// Writes all checks of this value of the step.
    pub(super) fn ask_value(
        &mut self,
        key: &str,
        value: &str,
        kind: WrittenKind,
        questions: Questions<'_>,
    ) -> Done {
        for question in questions {
            if let EffectQuestion::Value {
                name,
                sign,
                operand,
                ..
            } = question
                && *name == key
            {
                let condition = value_condition(self.language, value, kind, sign, operand)?;
                self.expect(question, &condition);
            }
        }
        Ok(())
    }
}

/// Returns the check of the status of a step, with the names of the status.
pub(super) fn status_asked<'a>(
    questions: Questions<'a>,
) -> Option<(&'a EffectQuestion<'a>, &'a [String])> {
    questions.iter().find_map(|question| match question {
        EffectQuestion::Status { names, .. } => Some((*question, *names)),
        _ => None,
    })
}
