//! A plain reproducer: the calls of one case in order, each with its status, and nothing that runs or
//! judges them. A maintainer reads it in a minute. What needs the harness is refused, with the reason.

mod c;
mod python;
mod sought;

use cuda_pitfalls_calls::Output;
use cuda_pitfalls_core::scenario::Hazard;

use super::program::{Action, Argument, Doing, EffectQuestion, Number, Reproducer, Sequence, questions, warning};
use super::{Language, Refusal};

/// The case that is written where none is named.
const TRAP: &str = "trap";

/// A plain reproducer, before it is written down.
struct Plain<'p> {
    program: &'p Reproducer<'p>,
    sequence: &'p Sequence<'p>,
    questions: Vec<EffectQuestion<'p>>,
    /// What to look for, a sentence without its full stop.
    sought: String,
}

/// The whole file, of the first case of the program.
///
/// # Errors
/// Why it cannot be said plainly, in a sentence that names `export` without `--plain`.
pub fn plain(program: &Reproducer<'_>, language: Language) -> Result<String, Refusal> {
    written(program, language)
        .map_err(|Refusal(why)| Refusal(format!("{why}; `export` without --plain may write it, with its harness")))
}

fn written(program: &Reproducer<'_>, language: Language) -> Result<String, Refusal> {
    let named = program.cases.iter().find(|sequence| sequence.case.name == TRAP);
    let sequence = named.or(program.cases.first()).ok_or_else(|| Refusal("it has no case".to_string()))?;
    check(program, sequence)?;
    let questions = questions(&program.instance.effect)?;
    let sought = sought::sentence(&questions)?;
    let plain = Plain { program, sequence, questions, sought };
    match language {
        Language::C if program.is_of_lines() => {
            Err(Refusal("its steps are lines of Python; write it `--as python`".to_string()))
        }
        Language::C => Ok(c::file(&plain)),
        Language::Python => python::file(&plain),
    }
}

/// Whether the calls alone, in one thread of one process, show the effect.
fn check(program: &Reproducer<'_>, sequence: &Sequence<'_>) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal(why.to_string()));
    if sequence.actors.len() > 1 {
        return refuse("its steps are made by several threads or processes, in an order that the harness keeps");
    }
    for hazard in &program.scenario.hazards {
        if !matches!(hazard, Hazard::Fault) {
            return Err(Refusal(format!(
                "{}, which should not happen by a file that looks harmless",
                warning(*hazard)
            )));
        }
    }
    for action in &sequence.steps {
        match &action.doing {
            Doing::Environ { .. } => return refuse("it writes to `environ` directly"),
            Doing::Line { text, .. } if text.contains("${") => {
                return refuse("it names a GPU by its UUID, which the harness fills in");
            }
            Doing::Call { arguments, .. } => arguments.iter().try_for_each(check_argument)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_argument(argument: &Argument) -> Result<(), Refusal> {
    let why = match argument {
        Argument::Text(text) if text.contains("${") => "it names a GPU by its UUID, which the harness fills in",
        Argument::Number(Number::Gpus) => "it passes the number of GPUs, which the harness fills in",
        Argument::Struct { .. } | Argument::Location { .. } | Argument::Out(Output::Struct(_)) => {
            "it passes or reads a structure, which is written by offsets"
        }
        Argument::Block(_) | Argument::Out(Output::Blob(..)) => "it passes bytes from one process to another",
        Argument::Out(Output::Uuid) => "it reads a UUID, which the harness compares",
        Argument::List(values) => return values.iter().try_for_each(check_argument),
        _ => return Ok(()),
    };
    Err(Refusal(why.to_string()))
}

impl Plain<'_> {
    /// The lines of the comment at the head of the file.
    fn header(&self, run: &[String]) -> Vec<String> {
        let Plain { program, sequence, sought, .. } = self;
        let scenario = program.scenario;
        let mut lines = vec![scenario.question.clone(), String::new()];
        lines.push(format!("Steps of the {}: {}.", sequence.case.name, sequence.case.does));
        lines.push(format!("Look for: {sought}."));
        let control = program.instance.cases.iter().find(|case| case.name == "control");
        if let Some(control) = control.filter(|_| sequence.case.name == TRAP) {
            lines.push(format!("Compare with the control, `--case control`: {}.", control.does));
        }
        if !scenario.answer.is_empty() {
            lines.push(format!("Measured before: {}", scenario.answer));
        }
        for hazard in &scenario.hazards {
            lines.push(format!("Careful: {}.", warning(*hazard)));
        }
        lines.push(String::new());
        lines.extend(run.iter().cloned());
        lines.push(String::new());
        let version = env!("CARGO_PKG_VERSION");
        lines.push(format!("Written by cuda-pitfalls {version} from {}.", program.instance.name));
        lines
    }

    /// What starts the program: its variables, and its mask if it has one.
    fn start(&self, command: &str) -> String {
        let mask = match self.sequence.masked() {
            None => "env -u CUDA_VISIBLE_DEVICES".to_string(),
            Some(count) => {
                let gpus: Vec<String> = (0..count).map(|gpu| gpu.to_string()).collect();
                format!("env CUDA_VISIBLE_DEVICES={}", gpus.join(","))
            }
        };
        let own = self.sequence.case.env.iter().map(|(name, value)| format!(" '{name}={}'", value.replace('\'', "")));
        format!("{mask}{} {command}", own.collect::<String>())
    }

    /// Whether the question is about memory.
    fn is_about_memory(&self) -> bool {
        self.questions.iter().any(|question| memory_step(question).is_some())
    }

    /// Whether what to look for names a step.
    fn names(&self, label: &str) -> bool {
        self.sought.contains(&format!("`{label}`"))
    }

    /// Whether memory is printed after a step.
    fn prints_memory_after(&self, action: &Action<'_>) -> bool {
        self.questions.iter().filter_map(memory_step).any(|at| at == action.step.label)
    }
}

/// The step after which a question is about memory.
fn memory_step<'q>(question: &EffectQuestion<'q>) -> Option<&'q str> {
    match question {
        EffectQuestion::Contexts { at, .. } | EffectQuestion::Memory { at, .. } | EffectQuestion::Bytes { at, .. } => {
            Some(at)
        }
        _ => None,
    }
}
