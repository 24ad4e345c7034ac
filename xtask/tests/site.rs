//! The site: its links resolve, its addresses stay, its search finds what people paste, and text of others is text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use cuda_pitfalls::releases::Matrix;
use serde_json::Value;
use xtask::documents::{self, root};
use xtask::site::{self, ErrorTexts, Sources};

const ADDRESSES: &str = "tests/addresses.txt";

/// A site with all its files.
struct Made {
    folder: tempfile::TempDir,
    sources: Sources,
    /// The pages, by their paths.
    pages: BTreeMap<String, String>,
}

impl Made {
    fn of(sources: Sources) -> Made {
        let folder = tempfile::tempdir().expect("a folder of our own");
        let out = folder.path().join("site");
        site::disk::write(&site::make(&sources), root(), &out).expect("the site can be written");
        let (mut pages, mut folders) = (BTreeMap::new(), vec![out.clone()]);
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).expect("a folder of the site").map(|entry| entry.unwrap().path()) {
                let name = path.strip_prefix(&out).unwrap().to_string_lossy().into_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if name.ends_with(".html") {
                    pages.insert(name, fs::read_to_string(path).expect("a page"));
                }
            }
        }
        Made { folder, sources, pages }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// What the search knows: the address, the title, the text and the breadcrumbs of each section.
    fn searched(&self) -> Vec<(String, [String; 3])> {
        let files = fs::read_dir(self.out()).expect("the site").map(|entry| entry.unwrap().path());
        let is_index = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("searchindex");
        let text = fs::read_to_string(files.into_iter().find(is_index).expect("an index")).expect("the index");
        let text = text.split_once("JSON.parse('").and_then(|(_, rest)| rest.rsplit_once("')")).expect("a text").0;
        let index: Value = serde_json::from_str(&text.replace("\\'", "'").replace("\\\\", "\\")).expect("JSON");
        let urls = index["doc_urls"].as_array().expect("addresses");
        let section = |(number, url): (usize, &Value)| {
            let section = &index["index"]["documentStore"]["docs"][number.to_string()];
            let field = |name: &str| section[name].as_str().expect("a text").to_owned();
            (url.as_str().unwrap().to_owned(), ["title", "body", "breadcrumbs"].map(field))
        };
        urls.iter().enumerate().map(section).collect()
    }
}

/// The site of what is committed.
fn committed() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| Made::of(site::disk::sources(root(), None).expect("the sources of the site can be read")))
}

/// The site with a matrix that was made up, part of which is hostile.
fn made_up() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let text = fs::read_to_string(root().join("xtask/tests/matrix.json")).expect("the matrix of the tests");
        let matrix = serde_json::from_str::<Matrix>(&text).expect("it is valid");
        let document = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let documents = [
            document("docs/README.md", "# Documents\n\n- [here](README.md)\n"),
            document("docs/surveys/README.md", "# Surveys <b>\n\n## `a<b>` &lt;c&gt;\n"),
        ];
        Made::of(Sources { version: "0.0.0".into(), documents: documents.into(), matrix, ..Sources::default() })
    })
}

/// The start tags of a page, outside scripts. A quoted value may hold an angle bracket.
fn tags(page: &str) -> Vec<&str> {
    let (mut tags, mut rest) = (Vec::new(), page);
    while let Some((_, after)) = rest.split_once('<') {
        let mut quoted = false;
        let is_end = |c: char| {
            quoted ^= c == '"';
            c == '>' && !quoted
        };
        let Some(end) = after.find(is_end) else { break };
        tags.push(&after[..end]);
        rest = &after[end..];
        if after.starts_with("script") {
            rest = rest.split_once("</script").map_or("", |(_, rest)| rest);
        } else if after.starts_with("!--") {
            rest = after.split_once("-->").map_or("", |(_, rest)| rest);
        }
    }
    tags
}

/// The values of an attribute on a page.
fn attributes<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let start = format!("{name}=\"");
    let value = |tag: &'p str| {
        // Every second piece is a value.
        let pieces: Vec<&str> = tag.split('"').collect();
        let name = start.trim_end_matches('"');
        pieces
            .chunks(2)
            .find(|pair| pair[0].split_whitespace().next_back() == Some(name))
            .and_then(|pair| pair.get(1).copied())
    };
    tags(page).into_iter().filter_map(value).collect()
}

/// A path without `..`, from a page on.
fn plain(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The links of a site that lead nowhere, and how many there are.
fn dead(made: &Made) -> (Vec<String>, usize) {
    let anchors: BTreeMap<&str, BTreeSet<&str>> =
        made.pages.iter().map(|(page, text)| (page.as_str(), attributes(text, "id").into_iter().collect())).collect();
    let (mut dead, mut seen) = (Vec::new(), 0);
    for (page, text) in &made.pages {
        let refreshed = text.split("http-equiv=\"refresh\" content=\"0; URL=").skip(1);
        let refreshed = refreshed.filter_map(|rest| rest.split('"').next());
        let links = ["href", "src"].into_iter().flat_map(|name| attributes(text, name)).chain(refreshed);
        for link in links.filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            seen += 1;
            let link = link.replace("&amp;", "&");
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { plain(page, file) };
            let has_anchor = anchor.is_empty() || anchors.get(target.as_str()).is_some_and(|ids| ids.contains(anchor));
            if !made.out().join(&target).is_file() || !has_anchor {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    (dead, seen)
}

#[test]
fn every_link_leads_to_a_page_and_a_place_on_it() {
    let (dead, seen) = dead(committed());
    assert!(dead.is_empty(), "{} links: {:#?}", dead.len(), dead.iter().take(40).collect::<Vec<_>>());
    assert!(seen > 10_000, "only {seen} links");
}

/// A page is opened from a folder, without a network.
#[test]
fn nothing_is_loaded_from_elsewhere() {
    for (page, text) in &committed().pages {
        let loaded = attributes(text, "src")
            .into_iter()
            .chain(attributes(text, "srcset"))
            .filter(|it| it.contains("//"))
            .count();
        let styles = text.split("<link ").skip(1).filter(|it| it.split('>').next().is_some_and(|it| it.contains("//")));
        assert_eq!(loaded + styles.count(), 0, "{page}");
    }
}

#[test]
fn every_page_says_the_version_and_when_its_evidence_was_measured() {
    let version = format!("cuda-pitfalls {}. ", committed().sources.version);
    let is_redirect = |text: &String| text.contains("http-equiv=\"refresh\"");
    let pages: Vec<_> =
        committed().pages.iter().filter(|(page, text)| !is_redirect(text) && *page != "toc.html").collect();
    assert!(pages.len() > 400, "only {}", pages.len());
    for (page, text) in pages {
        let stand = text.split_once("<footer class=\"stand\">").and_then(|(_, rest)| rest.split_once("</footer>"));
        let (stand, _) = stand.unwrap_or_else(|| panic!("{page} does not say it"));
        assert!(
            stand.starts_with(&version) && stand.contains(", measured ") && stand.contains(" 20"),
            "{page}: {stand}"
        );
    }
    // A question's page rests on the reports that it links, and an error's on those of its causes.
    for page in
        ["pitfalls/visibility/mask-after-cuinit.html", "errors/304.html", "lines/torch.html", "calls/libcuda.html"]
    {
        assert!(committed().pages[page].contains("This page rests on "), "{page}");
    }
}

/// Addresses of pages, and of the lines and calls on them.
fn addresses(made: &Made) -> BTreeSet<String> {
    let of_lines = |(page, text): (&String, &String)| {
        let has_places = page.starts_with("lines/") || page.starts_with("calls/") || page.starts_with("releases/");
        let ids = if has_places { attributes(text, "id") } else { Vec::new() };
        let own = ids.into_iter().filter(|id| !id.starts_with("mdbook-") && !id.starts_with("fa-"));
        own.map(|id| format!("{page}#{id}")).chain([page.clone()]).collect::<Vec<_>>()
    };
    made.pages.iter().filter(|(page, _)| *page != "toc.html").flat_map(of_lines).collect()
}

/// Other sites link to these.
#[test]
fn addresses_stay() {
    let path = root().join("xtask").join(ADDRESSES);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut listed: BTreeSet<String> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let made = addresses(committed());
    if std::env::var_os("CUDA_PITFALLS_BLESS").is_some() {
        listed.extend(made.iter().cloned());
        let lines: String = listed.iter().map(|line| format!("{line}\n")).collect();
        let head = "# Addresses of the site, which stay. CUDA_PITFALLS_BLESS=1 adds new ones; xtask/site/moved.toml leads on.\n";
        fs::write(&path, format!("{head}{lines}")).expect("the list can be written");
    }
    let gone: Vec<&String> = listed.difference(&made).collect();
    assert!(gone.is_empty(), "these addresses are gone; xtask/site/moved.toml can lead to new ones: {gone:#?}");
    let new: Vec<&String> = made.difference(&listed).collect();
    assert!(new.is_empty(), "not in xtask/{ADDRESSES}; CUDA_PITFALLS_BLESS=1 adds them: {new:#?}");
    assert!(listed.len() > 1000, "only {}", listed.len());
}

/// The messages of errors with the pages that they lead to.
fn messages() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("scenarios/errors.toml")).expect("the errors");
    let errors = ErrorTexts::parse(&text).expect("they are valid");
    let page = |name: &str| format!("errors/{name}.html");
    let own = errors.error.iter().map(|error| (error.says.clone(), page(&error.code.to_string())));
    let advised = errors.advice.iter().flat_map(|advice| {
        let name = advice.codes.first().map_or(advice.id.rsplit('/').next().unwrap().to_owned(), u32::to_string);
        advice.says.iter().map(move |says| (says.clone(), page(&name)))
    });
    own.chain(advised).collect()
}

#[test]
fn the_search_knows_every_message_and_shows_no_markup() {
    let searched = committed().searched();
    let messages = messages();
    assert!(messages.len() > 80, "only {}", messages.len());
    let shown = |says: &str| says.replace('<', "‹").replace('>', "›");
    for (says, page) in &messages {
        let is_own = |(url, fields): &&(String, [String; 3])| url.starts_with(page) && fields[0].contains(&shown(says));
        assert!(searched.iter().any(|section| is_own(&section)), "{says}: not a heading of {page}");
    }
    // mdBook's search shows headings as HTML.
    for made in [committed(), made_up()] {
        for (url, [title, _, breadcrumbs]) in made.searched() {
            assert!(!title.contains(['<', '>']) && !breadcrumbs.contains(['<', '>']), "{url}: {breadcrumbs}");
        }
    }
}

#[test]
fn the_matrix_of_the_tests_is_never_in_the_site() {
    let made = committed();
    assert_eq!(made.sources.matrix, documents::matrix().expect("documents"));
    let has_pages = made.pages.keys().any(|page| page.starts_with("releases/"));
    assert_eq!(has_pages, !made.sources.matrix.columns.is_empty());
    assert!(made.pages.iter().all(|(page, text)| !page.contains("made-up") && !text.contains("made_up.")));
}

#[test]
fn text_of_others_in_a_matrix_is_only_text() {
    let made = made_up();
    // This site has no pages of questions, so its first page has links that lead nowhere.
    let (dead, _) = dead(made);
    assert!(dead.iter().any(|link| link == "index.html: pitfalls/index.html"), "{dead:#?}");
    assert!(!dead.iter().any(|link| link.starts_with("releases/")), "{dead:#?}");
    let pages: Vec<&String> = made.pages.keys().filter(|page| page.starts_with("releases/")).collect();
    let expected = ["changes", "hostile-img-src-x-onerror-alert-1", "index", "made-up"];
    assert_eq!(pages, expected.map(|name| format!("releases/{name}.html")).iter().collect::<Vec<_>>());
    for page in pages {
        let text = &made.pages[page];
        let main = text.split_once("<main>").and_then(|(_, rest)| rest.split_once("</main>")).expect("a page").0;
        for tag in ["<script", "<img", "<svg", "<iframe", "<h1 id=\"heading"] {
            assert!(!tags(main).iter().any(|it| it.starts_with(&tag[1..])), "{page} has {tag}");
        }
        let handler = ["onerror", "onmouseover", "onload"].into_iter().find(|it| !attributes(main, it).is_empty());
        assert_eq!(handler, None, "{page}");
        assert!(!attributes(main, "href").iter().any(|link| link.contains("javascript:")), "{page}");
        assert!(!main.contains("root:"), "{page} includes a file");
    }
    let hostile = &made.pages["releases/hostile-img-src-x-onerror-alert-1.html"];
    assert!(hostile.contains("&lt;script&gt;alert(8)") && hostile.contains("{{#include /etc/passwd}}"), "{hostile}");
}

#[test]
fn a_change_is_between_versions_in_their_order() {
    let page = &made_up().pages["releases/changes.html"];
    let change = "made_up.ceased</a> changed from “yes” to “without NVML” between 1.9.0 and 2.0.0";
    assert!(page.contains(change), "{page}");
    let changes = ["</a> changed from", "</a> ceased", "</a> began"].map(|words| page.matches(words).count());
    assert_eq!(changes, [1, 0, 0], "{page}");
    assert!(page.contains("at <code>made_up/__init__.py:2 ceased</code>"), "{page}");
    let table = &made_up().pages["releases/made-up.html"];
    let row =
        table.split_once("id=\"made_up.ceased\"").and_then(|(_, rest)| rest.split_once("</tr>")).expect("a row").0;
    let words: Vec<&str> =
        row.split("<td class=\"state ").skip(1).filter_map(|it| it.split(['>', '<']).nth(1)).collect();
    assert_eq!(words, ["yes", "raises first", "without NVML"], "{row}");
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder of our own");
    fs::write(folder.path().join("mine.txt"), "mine").expect("a file");
    let site = site::make(&Sources::default());
    assert!(site::disk::write(&site, root(), folder.path()).is_err());
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
}

/// A browser of this machine; none, said on stderr, where there is none and it is not required.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|it| it.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI has no chromium, and the site must be opened in one");
        // Not by a macro, whose text a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "LEFT OUT: no chromium is installed, so the site was not opened in one");
    }
    found
}

/// What a script finds in a page of a site that is opened as a file, `width` pixels wide. `script` is the body of an
/// asynchronous function, which may use `page`, `wait(MS)` and `all(SELECTOR)`.
fn found(browser: &Path, made: &Made, page: &str, width: u32, script: &str) -> Value {
    let folder = tempfile::tempdir_in(made.folder.path()).expect("a folder of our own");
    let around = format!(
        "<!DOCTYPE html><meta charset=utf-8><body style=\"margin:0\"><iframe id=f src=\"../site/{page}\" \
         style=\"border:0;width:{width}px;height:1500px\"></iframe><pre id=out></pre><script>
        f.onload = async () => {{
          f.onload = null;
          const page = f.contentDocument, all = s => [...page.querySelectorAll(s)];
          const wait = ms => new Promise(done => setTimeout(done, ms));
          const work = async () => {{ {script} }};
          out.textContent = JSON.stringify(await work().catch(error => String(error)));
        }};</script>"
    );
    let path = folder.path().join("around.html");
    fs::write(&path, around).expect("a page can be written");
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--hide-scrollbars", "--allow-file-access-from-files"]);
    command.args(["--virtual-time-budget=120000", "--timeout=120000"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    command.arg("--dump-dom").arg(format!("file://{}", path.display()));
    let output = command.output().expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = dom.split_once("<pre id=\"out\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let text = text.map(|(text, _)| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
    text.and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(|| panic!("the browser found nothing: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Types each text into the search, and returns the first results.
const SEARCHED: &str = "page.getElementById('mdbook-search-toggle').click();
    const bar = page.getElementById('mdbook-searchbar'), made = [];
    const type = text => { bar.value = text; bar.dispatchEvent(new KeyboardEvent('keyup')); };
    type('first');
    const header = page.getElementById('mdbook-searchresults-header');
    while (header.textContent === '') await wait(20);
    for (const text of TEXTS) {
      type(text);
      await wait(1);
      made.push(all('#mdbook-searchresults a').slice(0, 9).map(one => one.getAttribute('href').split(/[?#]/)[0]));
    }
    return made;";

#[test]
fn an_error_that_is_pasted_into_the_search_leads_to_its_page() {
    let Some(browser) = browser() else { return };
    let mut asked = messages();
    asked.extend(messages().into_iter().map(|(says, page)| (format!("RuntimeError: CUDA error: {says}"), page)));
    let others = [
        ("cudaErrorNoDevice", "errors/100.html"),
        ("torch.cuda.is_available()", "lines/torch.html"),
        ("cudaGetDeviceCount", "calls/libcudart.html"),
        ("CUDA_VISIBLE_DEVICES is ignored", "pitfalls/index.html"),
    ];
    asked.extend(others.map(|(text, page)| (text.to_owned(), page.to_owned())));
    let texts: Vec<&String> = asked.iter().map(|(text, _)| text).collect();
    let script = SEARCHED.replace("TEXTS", &serde_json::to_string(&texts).expect("texts"));
    let made = found(&browser, committed(), "index.html", 1200, &script);
    let results: Vec<Vec<String>> = serde_json::from_value(made.clone()).unwrap_or_else(|_| panic!("{made}"));
    assert_eq!(results.len(), asked.len());
    let place = |(result, (_, page)): (&Vec<String>, &(String, String))| {
        // A page has several sections among the results; it counts once.
        let mut pages: Vec<&String> = Vec::new();
        result.iter().for_each(|one| {
            if !pages.contains(&one) {
                pages.push(one)
            }
        });
        pages.iter().position(|one| *one == page)
    };
    let places: Vec<Option<usize>> = results.iter().zip(&asked).map(place).collect();
    let late: Vec<_> = places.iter().zip(&asked).filter(|(place, _)| !matches!(place, Some(0..3))).collect();
    assert!(late.is_empty(), "not among the first three: {late:#?}");
    let first = places.iter().filter(|place| **place == Some(0)).count();
    assert!(first * 100 >= asked.len() * 95, "only {first} of {} came first", asked.len());
}

/// Which rows and columns are seen with each choice.
const FILTERED: &str = "const seen = () => [
      all('tr.line').filter(row => row.getBoundingClientRect().height > 0).map(row => row.id),
      all('.matrix thead th').filter(head => head.getBoundingClientRect().width > 0).length - 1];
    const form = page.querySelector('.filters');
    const change = () => form.dispatchEvent(new Event('input'));
    const made = { all: seen() };
    form.text.value = 'ALWAYS'; change(); made.text = seen(); form.text.value = '';
    form.changed.checked = true; change(); made.changed = seen(); form.changed.checked = false;
    form.yes.checked = true; change(); made.yes = seen();
    form.version[0].checked = form.version[1].checked = false; change(); made.versions = seen();
    made.said = form.querySelector('output').textContent;
    page.querySelectorAll('.matrix details').forEach(one => one.open = true);
    const matrix = page.querySelector('.matrix'), view = f.contentWindow;
    made.wide = page.documentElement.scrollWidth;
    made.scrolls = matrix.scrollWidth >= matrix.clientWidth;
    made.light = view.getComputedStyle(page.querySelector('td.yes')).backgroundColor;
    page.documentElement.className = 'js navy';
    made.dark = view.getComputedStyle(page.querySelector('td.yes')).backgroundColor;
    return made;";

#[test]
fn the_filters_of_a_table_show_what_they_say() {
    let Some(browser) = browser() else { return };
    let seen = found(&browser, made_up(), "releases/made-up.html", 360, FILTERED);
    let hostile = "hostile-script-alert-4-script-heading-b";
    let rows = ["made_up.always", "made_up.ceased", "made_up.never", hostile];
    assert_eq!(seen["all"], serde_json::json!([rows, 3]), "{seen:#}");
    assert_eq!(seen["text"], serde_json::json!([["made_up.always"], 3]), "{seen:#}");
    assert_eq!(seen["changed"], serde_json::json!([["made_up.ceased"], 3]), "{seen:#}");
    assert_eq!(seen["yes"], serde_json::json!([["made_up.always", "made_up.ceased"], 3]), "{seen:#}");
    assert_eq!(seen["versions"], serde_json::json!([["made_up.always"], 1]), "{seen:#}");
    assert_eq!(seen["said"], "1 of 4 lines", "{seen:#}");
    assert_eq!(seen["wide"], 360, "the page must be scrolled sideways: {seen:#}");
    assert_ne!(seen["light"], seen["dark"], "{seen:#}");
}

#[test]
fn pages_fit_a_phone() {
    let Some(browser) = browser() else { return };
    let pages = ["index", "errors/304", "lines/torch", "calls/libcudart", "pitfalls/index", "surveys/errors", "claims"];
    let script = "return all('main *').filter(one => !one.closest('.table-wrapper, pre') \
                  && one.getBoundingClientRect().right > 361).slice(0, 3).map(one => one.outerHTML.slice(0, 200));";
    for page in pages.map(|page| format!("{page}.html")) {
        let wide = found(&browser, committed(), &page, 360, script);
        assert_eq!(wide, serde_json::json!([]), "{page}");
    }
}
