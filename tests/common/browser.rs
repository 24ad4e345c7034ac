//! Pages in a real browser.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Scratch;

/// Returns a browser of this machine; `None`, with a message on stderr, if none is installed and none is required.
pub(crate) fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|it| it.is_file());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI has no chromium, and the page must be opened in one"
        );
        // Not by a macro, because the text of a test that passes is not shown.
        let _ = writeln!(
            std::io::stderr(),
            "LEFT OUT: no chromium is installed, so no page was opened in a browser"
        );
    }
    found
}

/// Opens pages in a browser, each at a width in pixels, and returns the measurements. A page around them takes the
/// measurements, because the pages themselves allow no script. `facts` adds members of a JavaScript object to the
/// measurements, and may use `all(SELECTOR)` and `box(ELEMENT)`. A browser takes a second to start, so all pages share
/// one.
pub(crate) fn opened(
    browser: &Path,
    scratch: &Scratch,
    pages: &[(&str, u32)],
    is_dark: bool,
    facts: &str,
) -> Vec<Value> {
    let folder = tempfile::tempdir_in(scratch.path()).expect("a folder of our own");
    for (number, (page, _)) in pages.iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.html")), page)
            .expect("a page can be written");
    }
    let widths: Vec<u32> = pages.iter().map(|(_, width)| *width).collect();
    let around = format!(
        "<!DOCTYPE html><body style=\"margin:0\"><pre id=out></pre><script>
        const found = [];
        function open(number) {{
          const width = {widths:?}[number], f = document.createElement('iframe');
          if (!width) {{ out.textContent = JSON.stringify(found); return; }}
          f.style = `border:0;width:${{width}}px;height:2000px`;
          f.src = `${{number}}.html`;
          f.onload = () => {{
            const page = f.contentDocument, all = s => [...page.querySelectorAll(s)];
            page.querySelectorAll('details').forEach(one => one.open = true);
            const box = one => one.getBoundingClientRect();
            const wide = all('body *').filter(one => !one.closest('.wide, pre') && box(one).right > width + 1);
            found.push({{
              width: page.documentElement.scrollWidth, height: page.documentElement.scrollHeight,
              wide: wide.slice(0, 5).map(one => one.outerHTML.slice(0, 200)),
              lost: all('a[href^=\"#\"]').filter(one => !page.getElementById(one.hash.slice(1))).length,
              page: f.contentWindow.getComputedStyle(page.body).backgroundColor,
              scripts: page.scripts.length, {facts}
            }});
            f.remove();
            open(number + 1);
          }};
          document.body.prepend(f);
        }}
        open(0);</script>"
    );
    let around_path = folder.path().join("around.html");
    fs::write(&around_path, around).expect("a page can be written");
    let profile = folder.path().join("profile");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ]);
    command.args([
        "--allow-file-access-from-files",
        "--virtual-time-budget=20000",
        "--timeout=60000",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!(
        "--blink-settings=preferredColorScheme={}",
        if is_dark { 0 } else { 1 }
    ));
    command
        .arg("--dump-dom")
        .arg(format!("file://{}", around_path.display()));
    let output = command.output().expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let measured = dom
        .split_once("<pre id=\"out\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let measured = measured.map(|(measured, _)| {
        measured
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    });
    measured
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(|| {
            panic!(
                "the browser has measured nothing:\n{dom}\n{}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
}
