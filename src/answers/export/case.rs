//! A case, step by step: the action, and the checks after it.

use super::condition::state;
use super::effect::{EffectQuestion, Questions, Since};
use super::error::{Done, ExportError};
use super::language::Language;
use super::program::{Doing, ExportStep, safe_identifier};
use super::writer::CaseText;

impl CaseText<'_> {
    pub(super) fn steps(&mut self, steps: &[ExportStep<'_>]) -> Done {
        steps.iter().try_for_each(|action| self.step(action))
    }

    fn step(&mut self, action: &ExportStep<'_>) -> Done {
        let (label, program, language) = (action.label, self.program, self.language);
        let questions = program.questions_at(label);
        if questions.iter().any(|question| is_about_growth(question)) {
            let readings = language.form(["{$0}", "[$0]"], &[&program.memory_readings()]);
            self.before = self.declare_variable("long long", "before", "[]", &readings, "");
        }
        let remark = self.remark_comment(action);
        match &action.doing {
            Doing::Nothing(why) if program.asks_for_value_of(label) => {
                return Err(ExportError(format!(
                    "its effect needs a value of the step `{label}`: {why}"
                )));
            }
            Doing::Nothing(why) => self.line(&language.comment_line(&format!("{label}: {why}"))),
            Doing::Getpid => {
                let name = language.variable(&format!("{label}_pid"));
                let value = language.pick(["getpid()", "os.getpid()"]);
                self.declare_variable("long long", &name, "", value, &remark);
            }
            Doing::Sleep { milliseconds } => {
                let forms = ["usleep($0 * 1000)", "time.sleep($0 / 1000)"];
                let statement = language.form(forms, &[&milliseconds.to_string()]);
                self.write_statement(&statement, &remark);
            }
            Doing::Fork(steps, end) => self.write_fork(steps, end)?,
            _ if language == Language::Python => self.python_step(action, &questions)?,
            _ => self.c_step(action, &questions)?,
        }
        self.expect_rest(&questions);
        Ok(())
    }

    /// Writes a step that exists only in C, or that is written differently in Python.
    fn c_step(&mut self, action: &ExportStep<'_>, questions: Questions<'_>) -> Done {
        let remark = self.remark_comment(action);
        match &action.doing {
            Doing::Call { call, arguments } => self.c_call(action, call, arguments, questions)?,
            Doing::Memset {
                variable,
                value,
                bytes,
            } => {
                let (variable, bytes) = (Language::C.variable(variable), Language::C.size(*bytes));
                let statement = format!("memset((void *)(uintptr_t){variable}, {value}, {bytes})");
                self.write_statement(&statement, &remark);
            }
            Doing::Open { file } => {
                let file = Language::C.string_literal(file);
                let statement = format!("CALL(dlopen({file}, RTLD_NOW) == NULL)");
                self.write_statement(&statement, &remark);
            }
            Doing::Thread(steps) => self.c_thread(steps)?,
            _ => return Err(two_languages_error(action)),
        }
        Ok(())
    }

    fn write_fork(&mut self, steps: &[ExportStep<'_>], end: &str) -> Done {
        let (program, language) = (self.program, self.language);
        let child = language.pick(["fork()", "os.fork()"]);
        let child = self.declare_variable("pid_t", "child", "", child, "");
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
        match language {
            Language::C => {
                self.line("}");
                self.c_wait(&child, count);
            }
            Language::Python => self.python_wait(&child, count),
        }
        self.expect_rest(&program.questions_at(end));
        Ok(())
    }

    /// Writes the checks of a step that are about the state of the driver and about memory.
    fn expect_rest(&mut self, questions: Questions<'_>) {
        for question in questions {
            if let Some(condition) = state(self.language, self.program, question, &self.before) {
                self.expect(question, &condition);
            }
        }
    }

    fn c_thread(&mut self, steps: &[ExportStep<'_>]) -> Done {
        let name = format!(
            "{}_thread_{}",
            safe_identifier(&self.sequence.case.name, &[]),
            self.functions.len() + 1
        );
        let text = std::mem::take(&mut self.text);
        let declared = std::mem::replace(&mut self.declared, self.shared.clone());
        let pad = std::mem::replace(&mut self.pad, 1);
        self.steps(steps)?;
        let body = std::mem::replace(&mut self.text, text);
        (self.declared, self.pad) = (declared, pad);
        self.functions.push(format!(
            "\nstatic void *{name}(void *unused)\n{{\n{body}    return unused;\n}}\n"
        ));
        self.write_statement(&format!("IN_A_THREAD({name})"), "");
        Ok(())
    }

    /// Waits for a child that makes `count` checks.
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
}

fn is_about_growth(question: &EffectQuestion<'_>) -> bool {
    matches!(
        question,
        EffectQuestion::Memory {
            since: Since::Step,
            ..
        }
    )
}

/// Returns the error for a step that does not exist in the language of the other steps.
pub(super) fn two_languages_error(action: &ExportStep<'_>) -> ExportError {
    ExportError(format!(
        "it mixes Python lines with the call `{}`",
        action.label
    ))
}
