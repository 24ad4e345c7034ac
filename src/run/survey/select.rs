//! Choosing among the questions of a survey, by name, glob or set.

use super::SurveyOptions;
use crate::render::escape;
use crate::scenario::nearest;
use crate::survey::{Item, Kind};

/// Refuses what makes no sense together, before anything is touched.
pub(super) fn check(options: &SurveyOptions) -> Result<(), String> {
    let only = |kind: Kind, what: &str| format!("{what} belongs to `survey {}`", kind.name());
    if options.generate > 0 && options.kind != Kind::Mask {
        return Err(only(Kind::Mask, "--generate"));
    }
    if options.visible_gpus != 1 && options.kind != Kind::Calls {
        return Err(only(Kind::Calls, "--visible-gpus"));
    }
    if options.run.libcudart.len() > 1 && options.kind != Kind::Calls {
        return Err(only(Kind::Calls, "--libcudart given several times"));
    }
    Ok(())
}

/// The questions that the selectors mean; all if there are none.
pub(super) fn chosen<R>(items: Vec<Item<R>>, selectors: &[String]) -> Result<Vec<Item<R>>, String> {
    if selectors.is_empty() {
        return Ok(items);
    }
    let mut keep = vec![false; items.len()];
    for selector in selectors {
        let pattern = glob::Pattern::new(selector);
        let is_meant = |key: &str| {
            // A mask's key is quoted; who asks for one writes it without.
            let plain = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
            let globbed = selector.contains(['*', '?']) && pattern.as_ref().is_ok_and(|pattern| pattern.matches(plain));
            [key, plain].contains(&selector.as_str()) || globbed
        };
        let mut found = false;
        for (item, keep) in items.iter().zip(&mut keep) {
            let of_set = item.question.sets.iter().any(|set| set.eq_ignore_ascii_case(selector));
            let meant = of_set || is_meant(&item.question.key);
            found |= meant;
            *keep |= meant;
        }
        if !found {
            let keys = items.iter().map(|item| item.question.key.as_str());
            let sets = items.iter().flat_map(|item| &item.question.sets).map(String::as_str);
            let near = nearest(selector, keys.chain(sets));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(format!("this survey asks nothing about `{}`{near}", escape::terminal(selector)));
        }
    }
    Ok(items.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(item, _)| item).collect())
}
