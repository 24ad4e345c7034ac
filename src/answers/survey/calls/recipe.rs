//! The recipe of each call. `scenarios/surveys/calls.toml` is parsed strictly.

use std::collections::{BTreeMap, BTreeSet};

use cuda_pitfalls_calls::{self as calls, Call, CallLibrary};
use serde::Deserialize;
use toml::Spanned;

use super::{COUNT, CallRow, INIT};
use crate::survey::list::read_list;
use crate::survey::question::{Item, TRAP, scenario};
use crate::survey::row::LeftOut;
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::scenario::{Case, Excerpts};
use cuda_pitfalls_core::source::tree::{Data, Node};

const PATH: &str = "scenarios/surveys/calls.toml";

/// Reason for a symbol that is not in any list, for instance because a newer library added it.
const NO_RECIPE: &str = "no recipe yet: scenarios/surveys/calls.toml does not name it";

/// The content of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipes {
    /// The calls, in the order of the file.
    pub calls: Vec<Recipe>,
    /// Patterns of calls that fail with all arguments that a first call can have, with the reason.
    pub refused: Vec<LeftOut>,
    /// Patterns of exported names that are excluded, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// Calls with a common selector.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    name: String,
    /// Common property of the calls, for readers of the file.
    #[serde(rename = "about")]
    _about: String,
    names: Vec<Spanned<String>>,
}

impl Recipes {
    /// Returns the reason why an exported call is excluded; `None` if the file gives no reason.
    pub fn why_left_out(&self, name: &str) -> Option<&str> {
        reason(&self.left_out, name)
    }

    /// Returns the exported functions that no recipe calls, with the reason. If the exported functions are unknown,
    /// returns the patterns themselves.
    pub(super) fn not_asked(&self, exported: Vec<String>) -> Vec<LeftOut> {
        let mut names: BTreeSet<String> = exported.into_iter().collect();
        names.retain(|name| !self.calls.iter().any(|recipe| recipe.symbol == *name));
        if names.is_empty() {
            return self.left_out.clone();
        }
        let left_out = names.into_iter().map(|name| {
            let reason = self.why_left_out(&name).unwrap_or(NO_RECIPE).to_string();
            LeftOut { name, reason }
        });
        left_out.collect()
    }

    /// Returns the reason why a call fails with every argument that a first call can have; `None` if the file gives no
    /// reason.
    pub fn why_refused(&self, symbol: &str) -> Option<&str> {
        reason(&self.refused, symbol)
    }
}

fn reason<'a>(patterns: &'a [LeftOut], name: &str) -> Option<&'a str> {
    let mut known = patterns.iter();
    let left = known
        .find(|left| glob::Pattern::new(&left.name).is_ok_and(|pattern| pattern.matches(name)))?;
    Some(left.reason.as_str())
}

/// Recipe of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// C symbol, or the label if a call has several recipes.
    pub name: String,
    /// The library of the call.
    pub origin: CallLibrary,
    /// The symbol.
    pub symbol: String,
    /// Number of GPUs visible to the worker.
    pub visible_gpus: u32,
    /// Symbols of the calls before it, which create the handles or memory that it needs.
    pub before: Vec<String>,
    /// The groups that the recipe belongs to.
    pub sets: Vec<String>,
    /// The earlier calls, then the call itself.
    steps: Vec<Step>,
}

/// Returns the label of the tested step. A call that also occurs among the later steps needs a separate label.
pub(super) fn label(recipe: &str) -> String {
    format!("the-{recipe}")
}

/// Returns the label of the step that makes an earlier call.
pub(super) fn label_before(recipe: &str, index: usize) -> String {
    format!("before-{recipe}-{index}")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipesFile {
    calls: Vec<Node>,
    /// Steps that create handles or memory for calls, by name.
    #[serde(default)]
    before: BTreeMap<String, Vec<Node>>,
    #[serde(default)]
    set: Vec<Set>,
    #[serde(default)]
    refused: Vec<NamesGroup>,
    #[serde(default)]
    left_out: Vec<NamesGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesGroup {
    names: Vec<String>,
    reason: String,
}

/// Returns the built-in recipes, for workers that see this many GPUs.
///
/// # Errors
/// Returns the errors of the file, with their places.
pub fn load_recipes(visible_gpus: u32) -> Result<Recipes, Invalid> {
    read(cuda_pitfalls_scenarios::survey("calls"), visible_gpus)
}

fn read(source: &str, visible_gpus: u32) -> Result<Recipes, Invalid> {
    read_list(PATH, source, |file: RecipesFile, excerpts| {
        let mut calls: Vec<Recipe> = Vec::new();
        for table in file.calls {
            let span = table.place.clone();
            let recipe = Recipe::from_table(table, visible_gpus, &file.before, excerpts)
                .map_err(|why| (span.clone(), why.to_string()))?;
            if calls.iter().any(|known| known.name == recipe.name) {
                return Err((
                    span,
                    format!("`{}` occurs twice; give one a label", recipe.name),
                ));
            }
            calls.push(recipe);
        }
        for set in file.set {
            for name in set.names {
                let Some(recipe) = calls
                    .iter_mut()
                    .find(|recipe| recipe.name == *name.get_ref())
                else {
                    return Err((
                        name.span(),
                        format!("no measured call has the name `{}`", name.get_ref()),
                    ));
                };
                recipe.sets.push(set.name.clone());
            }
        }
        Ok(Recipes {
            calls,
            refused: flatten_groups(file.refused),
            left_out: flatten_groups(file.left_out),
        })
    })
}

fn flatten_groups(groups: Vec<NamesGroup>) -> Vec<LeftOut> {
    let left_out = groups.into_iter().flat_map(|NamesGroup { names, reason }| {
        names.into_iter().map(move |name| LeftOut {
            name,
            reason: reason.clone(),
        })
    });
    left_out.collect()
}

/// Error in a recipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum RecipeError {
    #[error("unknown call `{0}`")]
    Call(String),
    #[error("`before` is the name of a list of steps")]
    Before,
    #[error("[before] has no steps named `{0}`")]
    Steps(String),
    #[error("`gpus` is a number of GPUs")]
    Gpus,
    #[error("`label` is text")]
    Label,
}

fn find_call(step: &Node) -> Result<&'static Call, RecipeError> {
    let mut keys = step.entries().iter().map(|entry| &entry.key.text);
    if let Some(call) = keys.clone().find_map(|key| calls::find(key)) {
        return Ok(call);
    }
    Err(RecipeError::Call(keys.next().cloned().unwrap_or_default()))
}

/// Returns the earlier steps that a step refers to by name, and removes the reference from the step.
fn before<'k>(
    step: &mut Node,
    known: &'k BTreeMap<String, Vec<Node>>,
) -> Result<&'k [Node], RecipeError> {
    match step.take_value("before").map(|name| name.data) {
        None => Ok(&[]),
        Some(Data::Text(name)) => match known.get(&name) {
            Some(steps) => Ok(steps),
            None => Err(RecipeError::Steps(name)),
        },
        Some(_) => Err(RecipeError::Before),
    }
}

fn gpus(step: &mut Node) -> Result<u32, RecipeError> {
    match step.take_value("gpus").map(|gpus| gpus.data) {
        None => Ok(1),
        Some(Data::Int(gpus)) => u32::try_from(gpus).map_err(|_| RecipeError::Gpus),
        Some(_) => Err(RecipeError::Gpus),
    }
}

impl Recipe {
    fn from_table(
        mut written: Node,
        visible_gpus: u32,
        known: &BTreeMap<String, Vec<Node>>,
        excerpts: &mut Excerpts<'_>,
    ) -> Result<Recipe, RecipeError> {
        let place = written.place.clone();
        let call = find_call(&written)?;
        let name = match written.take_value("label").map(|label| label.data) {
            None => call.name.to_string(),
            Some(Data::Text(label)) => label,
            Some(_) => return Err(RecipeError::Label),
        };
        let earlier = before(&mut written, known)?;
        let gpus = gpus(&mut written)?;
        let mut tables = Vec::new();
        let labels = (0..earlier.len())
            .map(|index| label_before(&name, index))
            .chain([label(&name)]);
        for (mut table, label) in earlier.iter().cloned().chain([written]).zip(labels) {
            table.put_text("label", label);
            tables.push(table);
        }
        let (steps, _) = excerpts.read_case(&Spanned::new(place, tables), &[]);
        let mut earlier_calls = Vec::new();
        for step in earlier {
            earlier_calls.push(find_call(step)?.name.to_string());
        }
        Ok(Recipe {
            name,
            origin: call.library,
            symbol: call.name.to_string(),
            visible_gpus: visible_gpus.max(gpus),
            before: earlier_calls,
            sets: Vec::new(),
            steps,
        })
    }

    /// Returns the question: the call, then a mask that hides all GPUs, then the number of GPUs that the driver sees.
    pub fn into_item(self) -> Item {
        let Recipe {
            name,
            origin,
            visible_gpus,
            before,
            sets,
            mut steps,
            ..
        } = self;
        steps.extend([
            Step::call("setenv", "mask-after")
                .with("name", "CUDA_VISIBLE_DEVICES")
                .with("value", ""),
            Step::call("cuInit", INIT),
            Step::call("cuDeviceGetCount", COUNT),
        ]);
        let case = Case {
            name: TRAP.into(),
            does: name.clone(),
            steps,
            probes: true,
            ..Case::default()
        };
        let question = format!("What does {name} do as the first call of a process?");
        let gpus = Some(visible_gpus);
        let scenario = scenario(
            format!("survey-calls/{name}"),
            question,
            gpus,
            Vec::new(),
            vec![case],
        );
        let library = origin.name().to_string();
        let row = CallRow {
            call: name,
            library,
            before,
            visible_gpus,
            ..CallRow::default()
        };
        Item {
            sets,
            of_libcudart: origin == CallLibrary::Runtime,
            ..Item::new(row, scenario, CallRow::with)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_makes_a_question() {
        let recipes = load_recipes(1).unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics));
        assert!(
            recipes.calls.len() >= 200,
            "only {} calls",
            recipes.calls.len()
        );
        for recipe in recipes.calls {
            let (name, before) = (recipe.name.clone(), recipe.before.len());
            let steps = &recipe.into_item().scenario.instances[0].cases[0].steps;
            assert_eq!(steps.len(), before + 4, "{name}");
            assert_eq!(steps[before].label, label(&name));
        }
    }

    #[test]
    fn every_call_of_the_step_table_is_asked_or_left_out() {
        let recipes = load_recipes(1).expect("the recipes are valid");
        let loaded = calls::all()
            .filter(|call| !matches!(call.library, CallLibrary::Libc | CallLibrary::Harness));
        let silent: Vec<&str> = loaded
            .map(|call| call.name)
            .filter(|name| !recipes.calls.iter().any(|recipe| recipe.symbol == *name))
            .filter(|name| recipes.why_left_out(name).is_none())
            .collect();
        assert!(
            silent.is_empty(),
            "scenarios/surveys/calls.toml says nothing about {silent:?}"
        );
    }

    #[test]
    fn a_set_names_calls_that_are_asked() {
        let set =
            "calls = [{ cuInit = {} }]\n[[set]]\nname = \"s\"\nabout = \"a\"\nnames = [\"cuInit\"]";
        assert_eq!(read(set, 1).unwrap().calls[0].sets, ["s"]);
        let wrong = read(&set.replace("[\"cuInit\"]", "[\"cuInti\"]"), 1).unwrap_err();
        assert!(
            wrong.diagnostics[0].message.contains("cuInti"),
            "{:?}",
            wrong.diagnostics
        );
    }

    #[test]
    fn a_call_is_asked_once_or_under_several_names() {
        let twice = "calls = [{ cuInit = {} }, { cuInit = {} }]";
        let wrong = read(twice, 1).unwrap_err();
        assert!(
            wrong.diagnostics[0].message.contains("twice"),
            "{:?}",
            wrong.diagnostics
        );
        let named = "calls = [{ cuInit = {} }, { cuInit = {}, label = \"again\" }]";
        assert_eq!(read(named, 1).unwrap().calls[1].name, "again");
    }

    #[test]
    fn a_mistake_in_arguments_is_told_at_its_call() {
        let source = "calls = [{ cuInit = {} }, { cuDeviceGet = { devcie = 0 } }]";
        let wrong = read(source, 1).unwrap_err();
        let told: Vec<&str> = wrong
            .diagnostics
            .iter()
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        assert!(
            told.iter().any(|message| message.contains("devcie")),
            "{told:?}"
        );
        assert!(
            wrong
                .diagnostics
                .iter()
                .all(|diagnostic| source[diagnostic.span.clone()].contains("devcie"))
        );
    }

    #[test]
    fn what_is_called_before_is_named_and_known() {
        let of = |call: &str| {
            read(
                &format!("calls = [{call}]\n[before]\np = [{{ cuInit = {{}} }}]"),
                1,
            )
        };
        let asked = of("{ cuCtxSynchronize = {}, before = \"p\", gpus = 2 }").unwrap();
        let recipe = &asked.calls[0];
        assert_eq!(
            (recipe.before[0].as_str(), recipe.visible_gpus),
            ("cuInit", 2)
        );
        let wrong = of("{ cuCtxSynchronize = {}, before = \"q\" }").unwrap_err();
        assert!(
            wrong.diagnostics[0].message.contains("`q`"),
            "{:?}",
            wrong.diagnostics
        );
    }
}
