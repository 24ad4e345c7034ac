//! The text of a case, written line by line.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::effect::EffectQuestion;
use super::language::{Language, c_declaration};
use super::program::{ExportStep, Reproducer, Sequence};

pub(super) struct CaseText<'p> {
    pub(super) language: Language,
    pub(super) program: &'p Reproducer<'p>,
    pub(super) sequence: &'p Sequence<'p>,
    pub(super) text: String,
    pub(super) pad: usize,
    /// Variables of the current function, with their C types.
    pub(super) declared: BTreeMap<String, String>,
    /// Variable that contains the memory before the step.
    pub(super) before: String,
    /// Functions of its threads in C, and the variables that they share with it, with their types.
    pub(super) functions: Vec<String>,
    pub(super) shared: BTreeMap<String, String>,
}

impl<'p> CaseText<'p> {
    pub(super) fn new(program: &'p Reproducer<'p>, sequence: &'p Sequence<'p>) -> CaseText<'p> {
        CaseText {
            language: program.language(),
            program,
            sequence,
            text: String::new(),
            pad: 1,
            declared: BTreeMap::new(),
            before: String::new(),
            functions: Vec::new(),
            shared: BTreeMap::new(),
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.pad));
    }

    pub(super) fn write_statement(&mut self, statement: &str, said: &str) {
        self.line(&format!(
            "{statement}{}{said}",
            self.language.pick([";", ""])
        ));
    }

    /// Assigns a value to a variable. The variable gets another name if the existing one has another type, or if it is
    /// an array.
    pub(super) fn declare_variable(
        &mut self,
        c_type: &str,
        name: &str,
        array: &str,
        value: &str,
        said: &str,
    ) -> String {
        let mut own = name.to_string();
        let mut count = 1;
        while self
            .declared
            .get(&own)
            .is_some_and(|known| known != c_type || !array.is_empty())
        {
            count += 1;
            own = format!("{name}_{count}");
        }
        let is_new = self
            .declared
            .insert(own.clone(), c_type.to_string())
            .is_none();
        let declared = if is_new && self.language == Language::C {
            c_declaration(c_type, &own) + array
        } else {
            own.clone()
        };
        self.write_statement(&format!("{declared} = {value}"), said);
        own
    }

    /// Writes a check on one line or on two.
    pub(super) fn expect(&mut self, question: &EffectQuestion<'_>, condition: &str) {
        let (asks, end) = self.language.pick([("EXPECT", ";"), ("expect", "")]);
        let what = self.language.string_literal(&question.words());
        let whole = format!("{asks}({condition}, {what}){end}");
        if whole.len() + 4 * self.pad <= 118 {
            self.line(&whole);
        } else {
            self.line(&format!("{asks}({condition},"));
            self.line(&format!("       {what}){end}"));
        }
    }

    /// Returns the comment after a statement, which has the step's label; empty if the label adds nothing to the call.
    pub(super) fn remark_comment(&self, action: &ExportStep<'_>) -> String {
        let Some(remark) = action.remark() else {
            return String::new();
        };
        let gap = self.language.pick([" ", "  "]);
        format!("{gap}{}", self.language.comment_line(remark))
    }
}
