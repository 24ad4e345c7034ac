//! Reading an article's file strictly. Every error has its place.
//!
//! Everything that a row names must exist, down to the label of a step, so that a renamed scenario cannot leave a claim
//! without its test.

mod file;

use std::collections::BTreeSet;
use std::ops::Range as Span;

use toml::Spanned;

use self::file::{ArticleFile, RawClaim, RawExpects, RawFigure};
use super::{Article, Assessment, Claim, Expects, Figure, Printed, Stated, Tested, Wanted, scenario_of};
use cuda_pitfalls_core::scenario::{Case, Diagnostic, Instance, Range, Scenario, nearest};

/// The articles that come with the program, by name.
///
/// # Errors
/// Every error of the first file with errors, and its text.
pub fn load_all(scenarios: &[Scenario]) -> Result<Vec<Article>, (Vec<Diagnostic>, String)> {
    let mut files: Vec<(&str, &str)> = cuda_pitfalls_scenarios::beside("claims")
        .filter_map(|(path, text)| Some((path.strip_suffix(".toml")?, text)))
        .collect();
    files.sort_unstable();
    let load = |(name, source): (&str, &str)| {
        load(name, &format!("scenarios/claims/{name}.toml"), source, scenarios)
            .map_err(|errors| (errors, source.to_owned()))
    };
    files.into_iter().map(load).collect()
}

/// Parses the text of an article's file.
///
/// `name` is the name of the article, `file` the name of the file in messages, and `scenarios` are those that rows can
/// name.
///
/// # Errors
/// Every error of the file, sorted by place.
pub fn load(name: &str, file: &str, source: &str, scenarios: &[Scenario]) -> Result<Article, Vec<Diagnostic>> {
    let mut reader = ClaimReader { file, scenarios, errors: Vec::new() };
    let parsed: ArticleFile = match toml::from_str(source) {
        Ok(parsed) => parsed,
        Err(error) => {
            reader.error(error.span().unwrap_or(0..0), error.message(), None);
            return Err(reader.errors);
        }
    };
    let article = reader.article(name, parsed);
    let mut errors = reader.errors;
    errors.sort_by_key(|error| error.span.start);
    if errors.is_empty() { Ok(article) } else { Err(errors) }
}

/// The file being read and its errors so far.
struct ClaimReader<'a> {
    file: &'a str,
    scenarios: &'a [Scenario],
    errors: Vec<Diagnostic>,
}

impl<'a> ClaimReader<'a> {
    fn error(&mut self, span: Span<usize>, message: impl Into<String>, meant: Option<&str>) {
        let help = meant.map(|name| format!("did you mean `{name}`?"));
        self.errors.push(Diagnostic { file: self.file.to_owned(), span, message: message.into(), help, context: None });
    }

    fn article(&mut self, name: &str, file: ArticleFile) -> Article {
        let prefix = name.split('-').next().unwrap_or_default().to_uppercase();
        let mut known = BTreeSet::new();
        for RawClaim { id, .. } in &file.claim {
            let number = id.get_ref().strip_prefix(&prefix).and_then(|rest| rest.strip_prefix('-'));
            if number.is_none_or(|number| number.parse::<u32>().is_err()) {
                self.error(id.span(), format!("`{}` is not of the form `{prefix}-<number>`", id.get_ref()), None);
            }
            if !known.insert(id.get_ref().clone()) {
                self.error(id.span(), format!("`{}` occurs twice", id.get_ref()), None);
            }
        }
        Article {
            name: name.to_owned(),
            title: self.sentence(file.article),
            source: self.citation(file.title, file.author, file.published),
            note: self.optional(file.note),
            claims: file.claim.into_iter().map(|claim| self.claim(claim)).collect(),
        }
    }

    /// Title, author and date, by which a reader can find the text.
    fn citation(
        &mut self,
        title: Spanned<String>,
        author: Option<Spanned<String>>,
        published: Spanned<String>,
    ) -> String {
        let span = published.span();
        let (title, author, day) = (self.sentence(title), self.optional(author), self.sentence(published));
        let is_day = |day: &str| {
            let parts: Vec<usize> = day.split('-').map(str::len).collect();
            parts == [4, 2, 2] && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        };
        if !is_day(&day) {
            self.error(span, "the day is written like `2025-05-23`", None);
        }
        let author = if author.is_empty() { "no author named".to_owned() } else { author };
        format!("“{title}”, {author}, {day}")
    }

    fn claim(&mut self, mut raw: RawClaim) -> Claim {
        let row = match raw.untestable.take() {
            Some(why) => self.untestable(why, &raw),
            None => self.tested(&mut raw),
        };
        Claim { id: raw.id.into_inner(), says: self.sentence(raw.says), note: self.optional(raw.note), row }
    }

    fn untestable(&mut self, why: Spanned<String>, raw: &RawClaim) -> Assessment {
        let has_more = raw.verdict.is_some() || raw.condition.is_some() || raw.cause.is_some();
        let is_tested = !raw.shown_by.is_empty() || !raw.cause_shown_by.is_empty() || !raw.numbers.is_empty();
        if has_more || is_tested {
            self.error(why.span(), "a claim that cannot be tested has no verdict and no `shown_by`", None);
        }
        Assessment::Untestable(self.sentence(why))
    }

    fn tested(&mut self, raw: &mut RawClaim) -> Assessment {
        let id = raw.id.span();
        let Some(stated) = raw.verdict.as_ref().map(Spanned::get_ref).copied() else {
            self.error(id, "a claim needs a `verdict`, or `untestable` and why", None);
            return Assessment::Untestable(String::new());
        };
        if raw.shown_by.is_empty() {
            self.error(id.clone(), "a verdict needs `shown_by`: the answers that support it", None);
        }
        match (stated, &raw.condition) {
            (Stated::Qualified, None) => self.error(id.clone(), "a qualified claim needs its `condition`", None),
            (Stated::Confirmed | Stated::Refuted | Stated::NotSeen, Some(condition)) => {
                self.error(condition.span(), "only a qualified claim has a condition", None);
            }
            _ => {}
        }
        match (stated, &raw.cause) {
            (Stated::Refuted | Stated::NotSeen, None) => {
                self.error(id.clone(), "a claim that is refuted or not seen needs its real `cause`", None);
            }
            (Stated::Confirmed, Some(cause)) => self.error(cause.span(), "a confirmed claim has no other cause", None),
            _ => {}
        }
        if raw.cause.is_some() == raw.cause_shown_by.is_empty() {
            self.error(id, "`cause` and `cause_shown_by` belong together", None);
        }
        Assessment::Tested(Tested {
            stated,
            condition: self.optional(raw.condition.take()),
            cause: self.optional(raw.cause.take()),
            shown_by: std::mem::take(&mut raw.shown_by)
                .into_iter()
                .filter_map(|expects| self.expects(expects))
                .collect(),
            cause_shown_by: {
                let raw = std::mem::take(&mut raw.cause_shown_by);
                raw.into_iter().filter_map(|expects| self.expects(expects)).collect()
            },
            numbers: std::mem::take(&mut raw.numbers).into_iter().filter_map(|figure| self.figure(figure)).collect(),
        })
    }

    fn expects(&mut self, raw: RawExpects) -> Option<Expects> {
        let instances = self.instances(&raw.scenario)?;
        let fact = match (raw.fact, raw.case, raw.is) {
            (Some(fact), Some(case), Some(is)) => {
                let figure = RawFigure {
                    scenario: raw.scenario.clone(),
                    case,
                    at: raw.at,
                    fact,
                    gpu: raw.gpu,
                    libcudart: None,
                    says: None,
                };
                let is = serde_json::to_value(is.get_ref()).ok()?;
                Some(Wanted { figure: self.figure_of(&instances, figure)?, is })
            }
            (None, None, None) if raw.at.is_none() && raw.gpu.is_none() => None,
            _ => {
                let message = "a fact needs `case`, `fact` and `is`, and `at` with the label of its step";
                self.error(raw.scenario.span(), message, None);
                None
            }
        };
        Some(Expects {
            in_framework: instances.iter().flat_map(|instance| &instance.cases).any(|case| case.python.is_some()),
            instances: instances.into_iter().map(|instance| instance.name.clone()).collect(),
            libcudart: self.range(raw.libcudart),
            scenario: raw.scenario.into_inner(),
            verdict: raw.verdict,
            fact,
            shows: self.optional(raw.shows),
        })
    }

    fn figure(&mut self, raw: RawFigure) -> Option<Figure> {
        let instances = self.instances(&raw.scenario)?;
        if instances.len() > 1 {
            self.error(raw.scenario.span(), "a figure needs one instance of this scenario", None);
            return None;
        }
        self.figure_of(&instances, raw)
    }

    /// Reads a figure that each of these instances must have.
    fn figure_of(&mut self, instances: &[&'a Instance], raw: RawFigure) -> Option<Figure> {
        let fact = Printed::parse(raw.fact.get_ref());
        if fact.is_none() {
            let meant = nearest(raw.fact.get_ref(), Printed::words());
            self.error(raw.fact.span(), format!("unknown fact `{}`", raw.fact.get_ref()), meant);
        }
        if (fact == Some(Printed::Exit)) != raw.at.is_none() {
            self.error(raw.fact.span(), "a fact has the label of its step in `at`; only `exit` has none", None);
        }
        if raw.fact.get_ref() == "memory" && raw.gpu.is_none() {
            self.error(raw.fact.span(), "a class of memory is that of one `gpu`", None);
        }
        for instance in instances {
            let case = self.case(instance, &raw.case)?;
            let labels = || case.steps.iter().map(|step| step.label.as_str());
            if let Some(at) = raw.at.as_ref().filter(|at| !labels().any(|label| label == at.get_ref().as_str())) {
                let message = format!("no step of `{}` in {} is called `{}`", case.name, instance.name, at.get_ref());
                self.error(at.span(), message, nearest(at.get_ref(), labels()));
            }
        }
        Some(Figure {
            scenario: raw.scenario.into_inner(),
            case: raw.case.into_inner(),
            at: raw.at.map(Spanned::into_inner).unwrap_or_default(),
            fact: fact?,
            gpu: raw.gpu,
            libcudart: self.range(raw.libcudart),
            says: self.optional(raw.says),
        })
    }

    /// The instances with a name: one instance, or all of a scenario.
    fn instances(&mut self, name: &Spanned<String>) -> Option<Vec<&'a Instance>> {
        let word = name.get_ref().as_str();
        let scenarios = self.scenarios;
        if let Some(scenario) = scenarios.iter().find(|scenario| scenario.name == word) {
            return Some(scenario.instances.iter().collect());
        }
        let all = || scenarios.iter().flat_map(|scenario| &scenario.instances);
        if let Some(instance) = all().find(|instance| instance.name == word) {
            return Some(vec![instance]);
        }
        let of_scenario =
            all().map(|instance| instance.name.as_str()).filter(|instance| scenario_of(instance) == scenario_of(word));
        let names = scenarios.iter().map(|scenario| scenario.name.as_str()).chain(of_scenario);
        self.error(name.span(), format!("there is no scenario `{word}`"), nearest(word, names));
        None
    }

    fn case(&mut self, instance: &'a Instance, name: &Spanned<String>) -> Option<&'a Case> {
        let found = instance.cases.iter().find(|case| case.name == *name.get_ref());
        if found.is_none() {
            let meant = nearest(name.get_ref(), instance.cases.iter().map(|case| case.name.as_str()));
            self.error(name.span(), format!("{} has no case `{}`", instance.name, name.get_ref()), meant);
        }
        found
    }

    fn range(&mut self, text: Option<Spanned<String>>) -> Option<Range> {
        let text = text?;
        match Range::parse(text.get_ref()) {
            Ok(range) => Some(range),
            Err(why) => {
                self.error(text.span(), why.to_string(), None);
                None
            }
        }
    }

    /// Text that is not empty, with spaces in place of line breaks.
    fn sentence(&mut self, text: Spanned<String>) -> String {
        let words: Vec<&str> = text.get_ref().split_whitespace().collect();
        if words.is_empty() {
            self.error(text.span(), "this is empty", None);
        }
        words.join(" ")
    }

    fn optional(&mut self, text: Option<Spanned<String>>) -> String {
        text.map(|text| self.sentence(text)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
