// The button of the start page, and the filters of the tables of versions. Without this script a table shows all.
"use strict";

(() => {
  const here = document.querySelector(".search-here");
  const toggle = document.getElementById("mdbook-search-toggle");
  if (here && toggle) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Search";
    button.addEventListener("click", () => {
      if (toggle.getAttribute("aria-expanded") !== "true") toggle.click();
      document.getElementById("mdbook-searchbar").focus();
    });
    here.append(" ", button);
  }

  for (const matrix of document.querySelectorAll(".matrix")) filtered(matrix);

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function filtered(matrix) {
    const heads = [...matrix.querySelectorAll("thead th")].slice(1);
    const rows = [...matrix.querySelectorAll("tr.line")].map((line) => ({
      line,
      how: line.nextElementSibling,
      cells: [...line.querySelectorAll("td")],
      text: (line.textContent + " " + line.nextElementSibling.textContent).toLowerCase(),
    }));
    const text = element("input", { type: "search", placeholder: "part of a line or of a stack", name: "text" });
    text.setAttribute("aria-label", "Show lines with this text");
    const changed = element("input", { type: "checkbox", name: "changed" });
    const yes = element("input", { type: "checkbox", name: "yes" });
    const versions = heads.map((head, index) =>
      element("input", { type: "checkbox", name: "version", value: String(index), checked: true }));
    const choice = element("details", {}, element("summary", { textContent: "Versions" }),
      ...versions.map((box, index) => element("label", {}, box, " " + heads[index].firstChild.textContent.trim())));
    const none = element("button", { type: "button", textContent: "none" });
    const all = element("button", { type: "button", textContent: "all" });
    for (const [button, isChecked] of [[none, false], [all, true]]) {
      button.addEventListener("click", () => {
        versions.forEach((box) => (box.checked = isChecked));
        show();
      });
      choice.append(button, " ");
    }
    const said = element("output", {});
    const form = element("form", { className: "filters" }, text,
      element("label", {}, changed, " only lines that changed"), element("label", {}, yes, " only yes"), choice, said);
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    matrix.before(form);

    // A line changed if it calls cuInit in some of the versions shown and does not in others.
    function calls(cell) {
      if (cell.classList.contains("yes")) return "yes";
      return cell.classList.contains("no") || cell.classList.contains("nvml") ? "no" : null;
    }

    function show() {
      const words = text.value.toLowerCase().trim();
      const isShown = versions.map((box) => box.checked);
      heads.forEach((head, index) => (head.hidden = !isShown[index]));
      let count = 0;
      for (const row of rows) {
        const answers = new Set();
        row.cells.forEach((cell, index) => {
          cell.hidden = !isShown[index];
          if (isShown[index]) answers.add(calls(cell));
        });
        const keep = row.text.includes(words)
          && (!changed.checked || (answers.has("yes") && answers.has("no")))
          && (!yes.checked || answers.has("yes"));
        row.line.hidden = row.how.hidden = !keep;
        if (keep) count += 1;
      }
      said.textContent = `${count} of ${rows.length} lines`;
    }
    show();
  }
})();
