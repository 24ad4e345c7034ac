//! Surveys: one question asked of a whole axis (every call, every mask, every variable), as rows.
//!
//! A survey's questions are scenarios like any other, written by a recipe instead of by hand, so
//! everything that makes an attempt count holds for them too. What one question showed is reduced
//! to a row; rows make a document, which lies beside the report of the instrument's controls. The
//! questions of `survey python` are lines of Python, each in a program that is traced.
//! Everything here is pure; `crate::run` asks the questions.

pub mod calls;
pub mod document;
pub mod env;
pub mod mask;
pub mod python;
mod question;
mod row;
mod stored;

pub use document::{Header, SurveyDocument};
pub use question::{Item, SurveyAnswer, SurveyQuestion};
pub use row::{RowAttempts, Unmeasured, keyed};
pub use stored::{Survey, schema};

/// Which survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum SurveyKind {
    /// Which call reads the mask, which makes a context, and what memory appears.
    Calls,
    /// The grammar of `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER` as the driver reads it.
    Mask,
    /// When each environment variable is read.
    Env,
    /// What lines of Python do: which reads the mask, and which makes a context.
    Python,
}

impl SurveyKind {
    /// All of them.
    pub const ALL: [SurveyKind; 4] = [SurveyKind::Calls, SurveyKind::Mask, SurveyKind::Env, SurveyKind::Python];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SurveyKind::Calls => "calls",
            SurveyKind::Mask => "mask",
            SurveyKind::Env => "env",
            SurveyKind::Python => "python",
        }
    }

    /// The name of the document's schema.
    pub fn schema(self) -> &'static str {
        match self {
            SurveyKind::Calls => "cuda-pitfalls-survey-calls",
            SurveyKind::Mask => "cuda-pitfalls-survey-mask",
            SurveyKind::Env => "cuda-pitfalls-survey-env",
            SurveyKind::Python => "cuda-pitfalls-survey-python",
        }
    }

    /// The file's name in the folder of a run.
    pub fn file(self) -> &'static str {
        match self {
            SurveyKind::Calls => "survey-calls.json",
            SurveyKind::Mask => "survey-mask.json",
            SurveyKind::Env => "survey-env.json",
            SurveyKind::Python => "survey-python.json",
        }
    }
}
