//! A case, step by step: what is called, and what is asked behind it. Where the languages differ in a form alone, both
//! forms stand side by side.

use std::fmt::Write;

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary, Returns};

use super::argument::Written;
use super::condition::{WrittenKind, state, status_condition, value_condition};
use super::effect::{EffectQuestion, Questions, Since};
use super::error::{Done, ExportError};
use super::language::{Language, library_object};
use super::lines::{indent_lines, last_expression};
use super::program::{Argument, Doing, ExportStep, Number, c_type, safe_identifier};
use super::writer::CaseText;

impl CaseText<'_> {
    pub(super) fn steps(&mut self, steps: &[ExportStep<'_>]) -> Done {
        steps.iter().try_for_each(|action| self.step(action))
    }

    fn step(&mut self, action: &ExportStep<'_>) -> Done {
        let (label, program, language) = (action.label, self.program, self.language);
        let questions = program.questions_at(label);
        if questions.iter().any(|question| {
            matches!(
                question,
                EffectQuestion::Memory {
                    since: Since::Step,
                    ..
                }
            )
        }) {
            let readings = language.form(["{$0}", "[$0]"], &[&program.memory_readings()]);
            self.before = self.declare_variable("long long", "before", "[]", &readings, "");
        }
        let said = self.said(action.remark(), &[]);
        match &action.doing {
            Doing::Call { call, arguments } => self.call(action, call, arguments, &questions)?,
            Doing::Line {
                text,
                value,
                may_raise,
            } => self.python_lines(label, text, *value, *may_raise, &questions)?,
            Doing::Getpid => {
                let name = language.variable(&format!("{label}_pid"));
                self.declare_variable(
                    "long long",
                    &name,
                    "",
                    language.pick(["getpid()", "os.getpid()"]),
                    &said,
                );
            }
            Doing::Nothing(why) if program.asks_for_value_of(label) => {
                return Err(ExportError(format!(
                    "its effect asks for a value of the step `{label}`: {why}"
                )));
            }
            Doing::Nothing(why) => self.line(&language.comment_line(&format!("{label}: {why}"))),
            Doing::Sleep { milliseconds } => {
                let forms = ["usleep($0 * 1000)", "time.sleep($0 / 1000)"];
                self.write_statement(&language.form(forms, &[&milliseconds.to_string()]), &said);
            }
            Doing::Memset {
                variable,
                value,
                bytes,
            } => {
                let forms = [
                    "memset((void *)(uintptr_t)$0, $1, $2)",
                    "ctypes.memset($0.value, $1, $2)",
                ];
                let (variable, bytes) = (language.variable(variable), language.size(*bytes));
                self.write_statement(
                    &language.form(forms, &[&variable, &value.to_string(), &bytes]),
                    &said,
                );
            }
            Doing::Open { file } => {
                let forms = [
                    "CALL(dlopen($0, RTLD_NOW) == NULL)",
                    "call(\"dlopen\", dlopen($0))",
                ];
                self.write_statement(
                    &language.form(forms, &[&language.string_literal(file)]),
                    &said,
                );
            }
            Doing::Fork(steps, end) => self.write_fork(steps, end)?,
            Doing::Thread(steps) => match language {
                Language::C => self.c_thread(steps)?,
                Language::Python => self.python_thread(steps)?,
            },
        }
        self.expect_rest(&questions);
        Ok(())
    }

    fn write_fork(&mut self, steps: &[ExportStep<'_>], end: &str) -> Done {
        let (program, language) = (self.program, self.language);
        let child = self.declare_variable(
            "pid_t",
            "child",
            "",
            language.pick(["fork()", "os.fork()"]),
            "",
        );
        self.line(&language.form(["if ($0 == 0) {", "if $0 == 0:"], &[&child]));
        let before = self.declared.clone();
        self.pad += 1;
        self.steps(steps)?;
        let count = program.count_asked(steps);
        let code = if count > 0 {
            language.pick(["failed != 0", "0 if all(answers) else 1"])
        } else {
            "0"
        };
        self.write_statement(&language.form(["_exit($0)", "os._exit($0)"], &[code]), "");
        self.pad -= 1;
        self.declared = before;
        if language == Language::C {
            self.line("}");
        }
        match language {
            Language::C => self.c_wait(&child, count),
            Language::Python => self.python_wait(&child, count),
        }
        self.expect_rest(&program.questions_at(end));
        Ok(())
    }

    fn call(
        &mut self,
        action: &ExportStep<'_>,
        call: &Call,
        arguments: &[Argument],
        questions: Questions<'_>,
    ) -> Done {
        let (label, language) = (action.label, self.language);
        let (made, written) = self.called(action, call, arguments);
        let names: Vec<&str> = arguments
            .iter()
            .filter_map(|argument| self.name_of(argument))
            .collect();
        let said = self.said(action.remark(), &names);
        if call.returns == Returns::Text {
            let text = self.declare_variable("const char *", "text", "", &made, &said);
            let value = language.form(["$0", "($0 or b\"NULL\").decode()"], &[&text]);
            return self.told(
                &[Written::new(calls::RETURNED_TEXT, value, WrittenKind::Text)],
                label,
                questions,
            );
        }
        let status = status_asked(questions);
        if call.library == CallLibrary::Libc
            && status.is_none()
            && let Some(statement) = self.libc(call, arguments, &made)
        {
            self.write_statement(&statement, &said);
            return Ok(());
        }
        let written: Vec<Written> = written
            .into_iter()
            .filter(|written| self.program.is_wanted(label, &written.key))
            .collect();
        let is_libc = call.library == CallLibrary::Libc && language == Language::C;
        let status_of = if is_libc {
            format!("{made} == 0 ? 0 : errno")
        } else {
            made
        };
        let mut result = language.form(["CALL($1)", "call(\"$0\", $1)"], &[call.name, &status_of]);
        let mut behind = said.as_str();
        if status.is_some() {
            result = self.declare_variable("int", "result", "", &result, &said);
            behind = "";
        }
        if !written.is_empty() {
            self.line(&format!(
                "{}{behind}",
                language.form(["if ($0 == 0)", "if $0 == 0:"], &[&result])
            ));
            self.write_output_block(&written, label, questions)?;
        } else if status.is_none() {
            self.write_statement(&result, &said);
        }
        if let Some((question, names)) = status {
            self.expect(
                question,
                &status_condition(language, call.library, &result, names)?,
            );
        }
        Ok(())
    }

    /// The call, behind the declarations of what it writes.
    fn called(
        &mut self,
        action: &ExportStep<'_>,
        call: &Call,
        arguments: &[Argument],
    ) -> (String, Vec<Written>) {
        let (mut passed, mut written) = (Vec::new(), Vec::new());
        for (param, argument) in call
            .params
            .iter()
            .zip(arguments)
            .filter(|(param, _)| !param.c_type.is_empty())
        {
            let c_type = c_type(param);
            passed.push(match argument {
                Argument::Rest => continue,
                Argument::Number(Number::Int(0)) if c_type.contains('*') => {
                    self.language.pick(["NULL", "None"]).to_string()
                }
                Argument::Struct { template, given } => {
                    self.struct_argument(param, template, given)
                }
                Argument::Out(output) => self.out(action, param, &c_type, *output, &mut written),
                argument => self.passed_argument(param, &c_type, argument),
            });
        }
        let function = self
            .language
            .form(["$1", "$0.$1"], &[library_object(call.library), call.name]);
        (format!("{function}({})", passed.join(", ")), written)
    }

    /// What is told of what was written, below a condition.
    fn write_output_block(
        &mut self,
        written: &[Written],
        label: &str,
        questions: Questions<'_>,
    ) -> Done {
        let begin = self.text.len();
        self.pad += 1;
        self.told(written, label, questions)?;
        self.pad -= 1;
        if self.language == Language::C {
            self.c_close(begin);
        }
        Ok(())
    }

    /// Prints what was written, and asks what is asked about it.
    fn told(&mut self, written: &[Written], label: &str, questions: Questions<'_>) -> Done {
        for it in written {
            let value = self.write_output(label, it, self.program.is_asked_at(label, &it.key));
            self.ask(&it.key, &value, it.kind, questions)?;
        }
        Ok(())
    }

    /// Prints what was written, or leaves that to the question about it in C; the value to ask about.
    fn write_output(
        &mut self,
        label: &str,
        Written { key, value, kind }: &Written,
        is_asked: bool,
    ) -> String {
        let (language, is_compared) = (self.language, self.program.is_compared(label, key));
        let mut value = value.clone();
        if is_compared && (language == Language::Python || *kind == WrittenKind::Part) {
            let name = language.variable(&format!("{label}_{key}"));
            value = self.declare_variable("long long", &name, "", &value, "");
        }
        if language == Language::Python {
            self.line(&format!("print(\"    {key} =\", {value})"));
            return value;
        }
        let shown = match kind {
            WrittenKind::Text => format!("SHOW_TEXT({value})"),
            WrittenKind::Number | WrittenKind::Part => format!("SHOW({value})"),
            WrittenKind::Handle => value,
        };
        if !is_asked && (is_compared || *kind == WrittenKind::Text) {
            self.write_statement(&shown, "");
        }
        shown
    }

    fn ask(&mut self, key: &str, value: &str, kind: WrittenKind, questions: Questions<'_>) -> Done {
        for question in questions {
            if let EffectQuestion::Value {
                name,
                sign,
                operand,
                ..
            } = question
                && *name == key
            {
                self.expect(
                    question,
                    &value_condition(self.language, value, kind, sign, operand)?,
                );
            }
        }
        Ok(())
    }

    /// The questions of a step that are about the state of the driver and about memory.
    fn expect_rest(&mut self, questions: Questions<'_>) {
        for question in questions {
            if let Some(condition) = state(self.language, self.program, question, &self.before) {
                self.expect(question, &condition);
            }
        }
    }

    /// The statement for a call of libc of whose result nothing is asked. The environment of Python is that of C.
    fn libc(&self, call: &Call, arguments: &[Argument], made: &str) -> Option<String> {
        match (call.name, arguments) {
            _ if self.language == Language::C => Some(made.to_string()),
            ("setenv", [Argument::Text(name), Argument::Text(value), ..]) => Some(format!(
                "os.environ[{}] = {}",
                Language::Python.text(name),
                Language::Python.text(value)
            )),
            ("unsetenv", [Argument::Text(name)]) => Some(format!(
                "os.environ.pop({}, None)",
                Language::Python.text(name)
            )),
            _ => None,
        }
    }

    fn c_thread(&mut self, steps: &[ExportStep<'_>]) -> Done {
        let name = format!(
            "{}_thread_{}",
            safe_identifier(&self.sequence.case.name, &[]),
            self.functions.len() + 1
        );
        let (text, declared, pad) = (
            std::mem::take(&mut self.text),
            self.declared.clone(),
            self.pad,
        );
        self.declared.clone_from(&self.of_file);
        self.pad = 1;
        self.steps(steps)?;
        let own = std::mem::replace(&mut self.text, text);
        (self.declared, self.pad) = (declared, pad);
        self.functions.push(format!(
            "\nstatic void *{name}(void *unused)\n{{\n{own}    return unused;\n}}\n"
        ));
        self.write_statement(&format!("IN_A_THREAD({name})"), "");
        Ok(())
    }

    /// Waits for a child that asks so many questions.
    fn c_wait(&mut self, child: &str, count: usize) {
        if count == 0 {
            return self.line(&format!("waitpid({child}, NULL, 0);"));
        }
        let ended = self.declare_variable("int", "ended", "", "0", "");
        self.line(&format!("waitpid({child}, &{ended}, 0);"));
        self.line(&format!(
            "asked += WIFEXITED({ended}) && WEXITSTATUS({ended}) < 2 ? {count} : 0;"
        ));
        self.line(&format!(
            "failed += WIFEXITED({ended}) && WEXITSTATUS({ended}) == 1;"
        ));
    }

    /// Puts a block that began at this index of the text into brackets, if it has more than one statement.
    fn c_close(&mut self, begin: usize) {
        let own = self.text.split_off(begin);
        let is_long = own.matches(";\n").count() > 1;
        if is_long {
            self.text.truncate(self.text.trim_end().len());
            self.text.push_str(" {\n");
        }
        self.text.push_str(&own);
        if is_long {
            self.line("}");
        }
    }

    /// Lines of a framework. Where one may raise, the case goes on behind it.
    fn python_lines(
        &mut self,
        label: &str,
        code: &str,
        value: Option<&str>,
        may_raise: bool,
        questions: Questions<'_>,
    ) -> Done {
        let status = status_asked(questions);
        let is_asked = questions.iter().any(|question| {
            !matches!(
                question,
                EffectQuestion::Memory { .. } | EffectQuestion::Contexts { .. }
            )
        });
        let is_tried = status.is_some() || may_raise || is_asked && value.is_none();
        let (before, last) = if value.is_some() {
            last_expression(code)
        } else {
            (code, "")
        };
        let mut whole = before.trim_end().to_string();
        if value.is_some() {
            let gap = if whole.trim().is_empty() { "" } else { "\n" };
            whole = format!("{whole}{gap}seen = {}", last.trim());
        }
        if is_tried {
            self.line("raised, message = \"OK\", None");
            self.line("try:");
        }
        let pad = "    ".repeat(self.pad + usize::from(is_tried));
        let _ = writeln!(self.text, "{}", indent_lines(&whole, &pad));
        if is_tried {
            self.line("except Exception as error:");
            self.line("    raised, message = type(error).__name__, str(error).split(\"\\n\")[0]");
            self.line("    print(\"   \", raised, message)");
        }
        if let Some(name) = value {
            if is_tried {
                self.line("if raised == \"OK\":");
                self.pad += 1;
            }
            self.line(&format!(
                "print({}, seen)",
                Language::Python.string_literal(&format!("    {name} ="))
            ));
            if self.program.is_compared(label, name) {
                self.line(&format!(
                    "{} = known(seen)",
                    Language::Python.variable(&format!("{label}_{name}"))
                ));
            }
            self.ask(name, "known(seen)", WrittenKind::Number, questions)?;
            self.pad -= usize::from(is_tried);
        }
        if questions.iter().any(|question| {
            matches!(
                question,
                EffectQuestion::Value {
                    name: "message",
                    ..
                }
            )
        }) {
            self.line("if message is not None:");
            self.pad += 1;
            self.ask("message", "message", WrittenKind::Number, questions)?;
            self.pad -= 1;
        }
        if let Some((question, names)) = status {
            let all: Vec<String> = names
                .iter()
                .map(|name| format!("raised == {}", Language::Python.string_literal(name)))
                .collect();
            self.expect(question, &all.join(" or "));
        }
        Ok(())
    }

    fn python_thread(&mut self, steps: &[ExportStep<'_>]) -> Done {
        self.line("def work():");
        self.pad += 1;
        let before = self.text.len();
        self.steps(steps)?;
        let own = self.text.get(before..).unwrap_or_default();
        if own.lines().all(|line| line.trim_start().starts_with('#')) {
            self.line("pass");
        }
        self.pad -= 1;
        self.line("with ThreadPoolExecutor(1) as thread:");
        self.line("    thread.submit(work).result()");
        Ok(())
    }

    /// Waits for a child that asks so many questions.
    fn python_wait(&mut self, child: &str, count: usize) {
        self.line(&format!("ended = os.waitpid({child}, 0)[1]"));
        if count > 0 {
            let answers =
                format!("answers += [ended == 0] * ({count} if ended in (0, 1 << 8) else 0)");
            self.line(&format!("{answers}  # it exited with 0 or 1"));
        }
    }
}

/// The question about the status of a step, with the names of the status.
fn status_asked<'a>(questions: Questions<'a>) -> Option<(&'a EffectQuestion<'a>, &'a [String])> {
    questions.iter().find_map(|question| match question {
        EffectQuestion::Status { names, .. } => Some((*question, *names)),
        _ => None,
    })
}
