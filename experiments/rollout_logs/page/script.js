"use strict";

// The page is whole without this: it adds sorting, filtering, the theme, and opens what a link leads to.
// Text of the log is only ever read as text or compared, never made into markup.

const root = document.documentElement;

function startTheme() {
  const button = document.createElement("button");
  const dark = () => (root.dataset.theme
    ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.type = "button";
  button.id = "theme";
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
  document.querySelector("header h1").after(button);
}

// Numbers by value, text by code point; cells without a value stand last in either direction.
function keyOf(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.sort !== undefined) return Number(cell.dataset.sort);
  if (cell.classList.contains("num")) return null;
  return cell.textContent === "" || cell.textContent === "-" ? null : cell.textContent;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a) < String(b) ? -1 : Number(String(a) > String(b));
}

function sortRows(table, column, ascending) {
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, (row) => [keyOf(row, column), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return ascending ? compare(a, b) : compare(b, a);
  });
  body.append(...keyed.map(([, row]) => row));
}

function startSorting(table, say) {
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    const title = heading.textContent;
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const ascending = heading.getAttribute("aria-sort") !== "ascending";
      headings.forEach((other) => other.setAttribute("aria-sort", "none"));
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sortRows(table, column, ascending);
      say(`sorted by ${title}, ${ascending ? "ascending" : "descending"}`);
    });
  });
}

function startFilter(table, form, say) {
  const text = form.querySelector("#filter-text");
  const warned = form.querySelector("#filter-warned");
  const apply = () => {
    const wanted = text.value.toLowerCase();
    for (const row of table.tBodies[0].rows) {
      const found = row.textContent.toLowerCase().includes(wanted);
      row.hidden = !found || (warned.checked && row.dataset.warned === undefined);
    }
    say("");
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  text.addEventListener("input", apply);
  warned.addEventListener("change", apply);
  form.hidden = false;
}

function startTasks() {
  const table = document.getElementById("tasks-table");
  const form = document.getElementById("filter");
  if (table === null || form === null) return;
  const found = document.getElementById("filter-found");
  const say = (words) => {
    const rows = Array.from(table.tBodies[0].rows);
    const shown = rows.filter((row) => !row.hidden).length;
    found.textContent = `${shown} of ${rows.length} tasks${words ? `, ${words}` : ""}`;
  };
  startSorting(table, say);
  startFilter(table, form, say);
  say("");
}

// A link to a task opens its samples and takes the focus there.
function openTarget() {
  const name = window.location.hash.slice(1);
  if (!/^[a-z0-9-]+$/.test(name)) return;
  const target = document.getElementById(name);
  if (target === null) return;
  const details = target.querySelector(":scope > details");
  if (details === null) {
    target.focus();
    return;
  }
  details.open = true;
  details.querySelector("summary").focus();
  target.scrollIntoView();
}

startTheme();
startTasks();
window.addEventListener("hashchange", openTarget);
openTarget();
